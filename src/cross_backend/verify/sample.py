"""The sample: two inputs, their reference outputs, and by what others are judged: scale and rounding."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.errors import CaptureError
from cross_backend.verify.compare import any_moved
from cross_backend.verify.deviation import deviation, scale_of
from cross_backend.verify.second_input import second_inputs

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]

UNIT = 2.0**-24
"""Unit roundoff of float32."""


def make_sample(
    inputs: Arrays, expected: Arrays, run: Callable[[Arrays], Arrays], again: Iterable[Arrays], accumulations: int
) -> dict[str, Arrays]:
    """Return the groups of a sample file.

    Args:
        inputs: first input.
        expected: its reference outputs.
        run: the reference on other inputs; it may raise CaptureError.
        again: outputs for the first input, computed in other orders or of inputs changed by a rounding error.
        accumulations: see :func:`rounding_of`.

    Returns:
        ``input``, ``expected``; ``scale``, float32, one a reference output; ``rounding``, one number; ``input2``,
        ``expected2`` where a second input works: the first that moves the outputs, else the last.
    """
    import numpy as np

    again = list(again)

    def judged_by(other: Sequence[Any]) -> dict[str, Arrays]:
        scales = [_scale(a, b) for a, b in zip(expected, other, strict=True)]
        rounding = rounding_of(expected, again, scales, accumulations)
        return {"input": inputs, "expected": expected, "scale": scales, "rounding": [np.array(rounding)]}

    found: dict[str, Arrays] = {}
    for second, other in _seconds(inputs, expected, run):
        found = judged_by(other) | {"input2": second, "expected2": other}
        if any_moved(expected, other, float(found["rounding"][0])):
            break
    return found or judged_by([None] * len(expected))


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
    for outputs in again:
        for want, got, scale in zip(expected, outputs, scales, strict=True):
            if want.dtype.kind in "fc" and want.size and want.shape == got.shape:
                found = float(deviation(want, got, scale).max())
                seen.append(found if math.isfinite(found) else 0.0)
    return max(seen)


def _scale(first: Any, second: Any) -> Any:
    import numpy as np

    if first.dtype.kind not in "fc":
        return np.zeros(first.shape, np.float32)
    with np.errstate(over="ignore"):
        return np.minimum(scale_of(first, second), np.finfo(np.float32).max).astype(np.float32)


def _seconds(inputs: Arrays, expected: Arrays, run: Callable[[Arrays], Arrays]) -> Iterator[tuple[Arrays, Arrays]]:
    """Yield other inputs that work, and the outputs for them."""
    import numpy as np

    for candidate in second_inputs(inputs):
        with contextlib.suppress(CaptureError):
            outputs = run(candidate)
            if [y.shape for y in outputs] == [y.shape for y in expected] and all(
                y.dtype.kind not in "fc" or np.array_equal(np.isfinite(y), np.isfinite(x))
                for x, y in zip(expected, outputs, strict=True)
            ):
                yield candidate, outputs
