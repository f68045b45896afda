"""Bug shapes: what a wrong value looks like, by names of the field; one is only said where the numbers show it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.localization.found import BugShape
from cross_backend.tensors import kind_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

CLOSE = 1e-4
"""Largest difference, relative to the largest value, of what counts as the same."""
HALF_MAX = 65504.0
"""Largest number of float16."""
SMALLEST = 2.0**-126
"""Smallest normal number of float32."""
FEW = 4
"""Fewest elements that show a rule."""


def bug_shapes(
    want: Array, got: Array, inputs: Sequence[Array] = (), variants: Mapping[str, Array] | None = None
) -> tuple[BugShape, ...]:
    """Return what the difference of two arrays looks like, the surest first.

    Args:
        want: what the reference computes.
        got: what the backend computes.
        inputs: what the operator takes.
        variants: a fault in words → what the operator computes with it.
    """
    import numpy as np

    if want.shape != got.shape:
        return tuple(_shape(want, got))
    if kind_of(want) not in "fiub" or not want.size:
        return ()
    a, b = want.astype(np.float64), got.astype(np.float64)
    if _same(a, b) and not ((a == 0) != (b == 0)).any():  # another order of sums
        return ()
    found = [one for words, array in (variants or {}).items() if (one := _variant(words, a, b, array)) is not None]
    with np.errstate(all="ignore"):
        for look in (_not_finite, _denormals, _layout, _shifted, _beside, _saturated, _affine):
            found += look(a, b)
        found += _ties(a, b, inputs)
    return tuple(found)


def _same(a: Array, b: Array) -> bool:
    import numpy as np

    finite = np.isfinite(a)
    if a.shape != b.shape or not np.array_equal(finite, np.isfinite(b)):
        return False
    size = float(np.abs(a[finite]).max()) if finite.any() else 0.0
    return bool((np.abs(a[finite] - b[finite]) <= CLOSE * size).all())


def _shape(want: Array, got: Array) -> Iterator[BugShape]:
    if sorted(want.shape) == sorted(got.shape):
        yield BugShape("layout swap", f"its shape is {list(got.shape)}, the reference's {list(want.shape)}")
    else:
        yield BugShape("another shape", f"its shape is {list(got.shape)}, the reference's {list(want.shape)}")


def _variant(words: str, want: Array, got: Array, array: Any) -> BugShape | None:
    import numpy as np

    other = np.asarray(array, np.float64)
    if other.shape != got.shape or not _same(other, got) or _same(other, want):
        return None
    name, _, rest = words.partition(": ")
    if name.startswith("attribute"):
        return BugShape("attribute ignored", f"{rest} ({name.removesuffix(' ignored')})")
    if name in {"ties", "transposed weights"}:
        return BugShape(name, rest or "it computes the result of the transposed weight")
    return BugShape("another rule", words)


def _not_finite(want: Array, got: Array) -> Iterator[BugShape]:
    import numpy as np

    new = ~np.isfinite(got) & np.isfinite(want)
    lost = np.isfinite(got) & ~np.isfinite(want)
    large = np.isfinite(want) & (np.abs(want) > HALF_MAX)
    held = np.isinf(got) | (np.abs(got) == HALF_MAX)
    if large.any() and held[large].all() and not held[~large].any():
        count = int(large.sum())
        yield BugShape("fp16 overflow", f"{count} element(s) beyond {HALF_MAX:g} are infinite or held there")
        return
    if new.any():
        kind = "NaN" if np.isnan(got[new]).any() else "infinity"
        yield BugShape(f"{kind} begins here", f"{int(new.sum())} of {want.size} element(s), finite in the reference")
    if lost.any():
        kind = "NaN" if np.isnan(want[lost]).any() else "infinity"
        values = ", ".join(f"{one:.6g}" for one in np.unique(got[lost])[:3])
        yield BugShape(f"{kind} lost", f"{int(lost.sum())} element(s) are {values} where the reference is not finite")


def _denormals(want: Array, got: Array) -> Iterator[BugShape]:
    import numpy as np

    tiny = (want != 0) & (np.abs(want) < SMALLEST)
    if tiny.any() and (got[tiny] == 0).all() and _same(want[~tiny], got[~tiny]):
        yield BugShape("denormals", f"{int(tiny.sum())} denormal number(s) are flushed to 0; all others agree")


def _layout(want: Array, got: Array) -> Iterator[BugShape]:
    import numpy as np

    if want.ndim < 2 or want.ndim > 4 or not np.isfinite(want).all():
        return
    if not _same(np.sort(want, axis=None), np.sort(got, axis=None)):
        return
    for order in itertools.permutations(range(want.ndim)):
        moved = want.transpose(order)
        if not _same(moved.ravel(), want.ravel()) and _same(moved.ravel(), got.ravel()):
            yield BugShape("layout swap", f"its elements are the reference's with axes in the order {list(order)}")
            return
    for axis in range(want.ndim):
        if want.shape[axis] > 1 and _same(np.flip(want, axis), got):
            yield BugShape("axis reversed", f"axis {axis} runs backwards")
            return


def _shifted(want: Array, got: Array) -> Iterator[BugShape]:
    import numpy as np

    for axis, step in itertools.product(range(want.ndim), (1, -1)):
        extent = want.shape[axis]
        if extent < 3:
            continue
        ahead, behind = np.arange(1, extent), np.arange(extent - 1)
        first, second = (ahead, behind) if step == 1 else (behind, ahead)
        a, b = want.take(first, axis), got.take(second, axis)
        if a.size >= FEW and np.ptp(a[np.isfinite(a)] if np.isfinite(a).any() else np.zeros(1)) > 0 and _same(a, b):
            yield BugShape("padding off by one", f"it is the reference moved by one along axis {axis}")
            return


def _beside(want: Array, got: Array) -> Iterator[BugShape]:
    """Find elements that are those beside them along the last two axes: an index that is rounded otherwise."""
    import numpy as np

    differ = want != got
    if want.ndim < 2 or min(want.shape[-2:]) < FEW or differ.sum() < FEW or differ.mean() > 0.5:
        return
    matched = np.zeros(want.shape, bool)
    for steps in itertools.product((-1, 0, 1), repeat=2):
        if any(steps):
            matched |= np.roll(want, steps, (-2, -1)) == got
    if matched[differ].all() and np.unique(want).size > FEW:
        yield BugShape("index off by one", f"{int(differ.sum())} of {want.size} element(s) are those beside them")


def _saturated(want: Array, got: Array) -> Iterator[BugShape]:
    import numpy as np

    if not (np.isfinite(want).all() and np.isfinite(got).all()):
        return
    low, high = float(got.min()), float(got.max())
    if low == high or not _same(np.clip(want, low, high), got):
        return
    held = [bound for bound, beyond in ((low, want < low), (high, want > high)) if beyond.any()]
    inside = (want > low) & (want < high)
    if held and inside.any():
        bounds = " and ".join(f"{one:.6g}" for one in held)
        count = int(((want < low) | (want > high)).sum())
        yield BugShape("saturation", f"{count} element(s) are held at {bounds}; all others agree")


def _affine(want: Array, got: Array) -> Iterator[BugShape]:
    """Find a factor or an offset that all elements share."""
    import numpy as np

    finite = np.isfinite(want) & np.isfinite(got)
    x, y = want[finite], got[finite]
    if x.size < FEW or np.ptp(x) == 0:
        return
    factor, offset = np.polyfit(x, y, 1)
    size = float(np.abs(x).max())
    if factor == 0 or float(np.abs(factor * x + offset - y).max()) > CLOSE * max(size, float(np.abs(y).max())):
        return
    is_scaled, is_moved = abs(factor - 1) > 10 * CLOSE, abs(offset) > 10 * CLOSE * size
    if is_scaled and not is_moved:
        yield BugShape("wrong scale", f"all elements are {factor:.6g} × the reference")
    elif is_moved and not is_scaled:
        yield BugShape("wrong zero point", f"all elements are the reference {offset:+.6g}")
    elif is_moved and is_scaled:
        yield BugShape("wrong scale and zero point", f"all elements are {factor:.6g} × the reference {offset:+.6g}")


def _ties(want: Array, got: Array, inputs: Sequence[Array]) -> Iterator[BugShape]:
    import numpy as np

    differ = want != got
    for one in inputs:
        if one.shape == want.shape and kind_of(one) == "f" and np.isfinite(want).all() and np.isfinite(got).all():
            x = one.astype(np.float64)
            is_half = np.abs(x - np.floor(x) - 0.5) == 0
            whole = _whole(want) and _whole(got)
            if whole and differ.any() and is_half[differ].all() and (np.abs(want - got)[differ] == 1).all():
                yield BugShape("ties", f"{int(differ.sum())} element(s) differ by 1, all of inputs that end in .5")
                return


def _whole(x: Array) -> bool:
    import numpy as np

    return bool((x == np.round(x)).all())


def worst(want: Array, got: Array, count: int = 4) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return (expected, got) of the elements that differ most."""
    import numpy as np

    if want.shape != got.shape:
        return tuple(map(_real, want.ravel()[:count])), tuple(map(_real, got.ravel()[:count]))
    with np.errstate(all="ignore"):
        off = np.abs(want.astype(np.complex128) - got.astype(np.complex128)).ravel()
    off = np.where((want == got).ravel(), -1.0, np.where(np.isfinite(off), off, math.inf))
    places = np.argsort(-off, kind="stable")[:count]
    return tuple(map(_real, want.ravel()[places])), tuple(map(_real, got.ravel()[places]))


def _real(value: Any) -> float:
    return float(getattr(value, "real", value))
