"""16-bit types: how much exact rounding to them changes a program's outputs, and what is allowed beside it.

The reference program runs once more with its weights, inputs and intermediate values rounded to the type. The root
mean square of the deviations, the *noise*, says what a right target of that type does to this program: right targets
showed 0.6 to 1.5 times the noise where it is above 0.05 (``benchmarks/built_in_models.py``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.tensors import kind_of
from cross_backend.verify.deviation import deviation

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]

NARROW: Mapping[str, str] = {"fp16": "float16", "bf16": "bfloat16"}
"""16-bit precision → its type, in the order of a sample file."""
GAIN = 2.5
"""Largest root mean square of a right target, in multiples of the noise."""
MOST = 0.45
"""Largest root mean square that proves anything: outputs of another network are at 0.5 and more."""
RANGE = 4.0
"""Room that a type's range must leave above the largest value: targets hold sums and folded weights beside it."""


def narrow_group(noise: Mapping[str, float]) -> Arrays:
    """Return the group of a sample file that holds what exact rounding changes."""
    import numpy as np

    return [np.array([noise.get(precision, math.nan) for precision in NARROW])]


def narrow_of(group: Arrays) -> dict[str, float]:
    """Return 16-bit precision → noise; empty where it was not measured."""
    if not group or group[0].dtype.kind != "f":
        return {}
    numbers = map(float, group[0].reshape(-1))
    return {precision: x for precision, x in zip(NARROW, numbers, strict=False) if x >= 0}


def noise_of(rows: Sequence[tuple[Arrays, Arrays, Arrays]]) -> float:
    """Return the root mean square of the deviations over all outputs; infinite where one is NaN or infinite.

    Args:
        rows: expected outputs, outputs, scales, one an input.
    """
    import numpy as np

    squares, count = 0.0, 0
    for expected, outputs, scales in rows:
        for want, got, scale in zip(expected, outputs, scales, strict=True):
            if kind_of(want) in "fc" and want.shape == got.shape:
                finite = np.isfinite(want)
                found = deviation(want, got, np.broadcast_to(scale, want.shape))[finite]
                squares, count = squares + float((found * found).sum()), count + found.size
    return math.sqrt(squares / max(count, 1))


def allowed_mean(mean: float, noise: float | None) -> float:
    """Return the largest accepted root mean square.

    Args:
        mean: of the precision, for programs that add little.
        noise: what exact rounding to it changes; None where it is no 16-bit type, or was not measured.
    """
    return mean if noise is None or not math.isfinite(noise) else max(mean, min(GAIN * noise, MOST))


def too_noisy(precision: str, noise: float | None, mean: float) -> str | None:
    """Return why an input says nothing of targets of a precision; None where it does.

    Args:
        precision: of the targets.
        noise: what exact rounding to it changes on this input, or None.
        mean: the largest accepted root mean square.
    """
    if noise is None or GAIN * noise <= mean:
        return None
    if not math.isfinite(noise):
        return f"beyond the range of {NARROW[precision]}"
    return f"{NARROW[precision]} alone changes the outputs by {noise:.2g} of their scale, root mean square"
