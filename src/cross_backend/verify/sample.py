"""The sample: two inputs, their reference outputs, and by what others are judged: scale and rounding."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError
from cross_backend.tensors import kind_of
from cross_backend.verify.compare import NARROW, any_moved
from cross_backend.verify.deviation import deviation, scale_of
from cross_backend.verify.second_input import second_inputs

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]

JUMP, MOST_JUMPS = 1e-2, 0.1
"""An element that deviates by more under a few rounding errors jumps; largest share of elements that may."""
LEAST = 1e-6
"""Smallest tolerance of float32."""
UNIT = 2.0**-24
"""Unit roundoff of float32."""


def make_sample(
    inputs: Arrays,
    expected: Arrays,
    run: Callable[[Arrays], Arrays],
    again: Iterable[Arrays],
    accumulations: int,
    *,
    may_move: bool = True,
    jumps: Iterable[Arrays] = (),
) -> dict[str, Arrays]:
    """Return the groups of a sample file.

    Args:
        inputs: first input.
        expected: its reference outputs.
        run: the reference on other inputs; it may raise CaptureError.
        again: outputs for the first input, computed in other orders or of inputs changed by a rounding error.
        accumulations: see :func:`rounding_of`.
        may_move: whether to look for a second input.
        jumps: outputs for the first input under larger rounding errors: where they jump, by a rounding or an argmax
            that is nearly a tie, a right program may jump, too.

    Returns:
        ``input``, ``expected``; ``scale``, float32, one a reference output; ``rounding``, one number; ``input2``,
        ``expected2`` where a second input works: the first that moves the outputs, else the last; ``margin``, one a
        reference output, where rounding moves whole numbers.
    """
    import numpy as np

    again, jumps = list(again), list(jumps)
    margins = _margins(expected, jumps)

    def judged_by(other: Sequence[Any]) -> dict[str, Arrays]:
        scales = [_scale(a, b) for a, b in zip(expected, other, strict=True)]
        rounding = rounding_of(expected, again, scales, accumulations)
        for outputs in jumps:
            scales = [with_jumps(*row) for row in zip(expected, outputs, scales, strict=True)]
        return {"input": inputs, "expected": expected, "scale": scales, "rounding": [np.array(rounding)]}

    found: dict[str, Arrays] = {}
    for second, other in _seconds(inputs, expected, run) if may_move else ():
        found = judged_by(other) | {"input2": second, "expected2": other}
        if any_moved(expected, other, float(found["rounding"][0])):
            break
    found = found or judged_by([None] * len(expected))
    return found | {"margin": margins} if any(one.any() for one in margins) else found


def rounding_of(expected: Arrays, again: Iterable[Arrays], scales: Arrays, accumulations: int) -> float:
    """Return how far rounding moves a program's outputs, as the largest deviation of an element.

    It is what was seen, at least u/4·√n: the error of sums of n terms in float32 grows with √n (Higham & Mary, *SIAM J.
    Sci. Comput.* 41(5), 2019), and a program that is summed in another order may show more than one run of torch.

    Args:
        expected: reference outputs.
        again: the same with other rounding errors.
        scales: of the outputs.
        accumulations: terms of all its sums along the program, n.
    """
    seen = [UNIT / 4 * math.sqrt(max(accumulations, 1))]
    runs = list(again)
    if not runs:  # an ONNX file with one reference: of outputs of 16 bits at least that is known
        seen += [NARROW[want.dtype.name] for want in expected if want.dtype.name in NARROW]
    for outputs in runs:
        for want, got, scale in zip(expected, outputs, scales, strict=True):
            if kind_of(want) in "fc" and want.size and want.shape == got.shape:
                found = float(deviation(want, got, scale).max())
                seen.append(found if math.isfinite(found) else 0.0)
    return max(seen)


def with_jumps(want: Any, other: Any, scale: Any) -> Any:
    """Return the scale, larger where an output jumps: a difference as large as the jump is then rounding.

    Where more than a tenth jumps, none does, and the scale itself is returned.

    Args:
        want: expected output.
        other: the same under a few rounding errors.
        scale: of each element.
    """
    import numpy as np

    if want.shape != other.shape or not want.size or kind_of(want) not in "fc":
        return scale
    jumped = deviation(want, other, scale) > JUMP
    if not jumped.any() or jumped.mean() > MOST_JUMPS:
        return scale
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.minimum(np.abs(want - other) / LEAST, np.finfo(np.float32).max)
    return np.where(jumped & np.isfinite(size), np.maximum(scale, size), scale).astype(np.float32)


def _margins(expected: Arrays, jumps: Iterable[Arrays]) -> list[np.ndarray[Any, Any]]:
    """Return how far each whole number may be off: as far as rounding moves it, where an argmax is nearly a tie."""
    import numpy as np

    found = [np.zeros(y.shape if kind_of(y) in "iu" else (), np.float64) for y in expected]
    for outputs in jumps:
        for index, (want, other) in enumerate(zip(expected, outputs, strict=True)):
            if kind_of(want) in "iu" and want.shape == other.shape and want.size:
                moved = np.abs(want.astype(np.float64) - other.astype(np.float64))
                if (moved > 0).mean() <= MOST_JUMPS:
                    found[index] = np.maximum(found[index], moved)
    return found


def _scale(first: Any, second: Any) -> Any:
    import numpy as np

    if kind_of(first) not in "fc":
        return np.zeros(first.shape, np.float32)
    if second is not None and np.array_equal(first, second, equal_nan=True):
        second = None  # where nothing changes, magnitudes are all that there is
    with np.errstate(over="ignore"):
        return np.minimum(scale_of(first, second), np.finfo(np.float32).max).astype(np.float32)


def _seconds(inputs: Arrays, expected: Arrays, run: Callable[[Arrays], Arrays]) -> Iterator[tuple[Arrays, Arrays]]:
    """Yield other inputs that work, and the outputs for them."""
    import numpy as np

    for candidate in second_inputs(inputs):
        with contextlib.suppress(CaptureError):
            outputs = run(candidate)
            if [y.shape for y in outputs] == [y.shape for y in expected] and all(
                kind_of(y) not in "fc" or np.array_equal(np.isfinite(y), np.isfinite(x))
                for x, y in zip(expected, outputs, strict=True)
            ):
                yield candidate, outputs
