"""Deviation: how far an output is from its reference, element by element, on a scale that no mask or outlier sets.

An element's error is judged against its own magnitude plus how much such elements change from one input to another:
what a network computes is in that change. A masked logit of −1e9 changes nothing, and one huge element changes only
its own scale, so neither hides an error beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.tensors import kind_of

if TYPE_CHECKING:
    import numpy as np

QUANTILE = 0.75
"""Of the changes along a line of elements: three quarters may be masked, one quarter may be outliers."""
FEWEST = 8
"""Elements along an axis from which on they have a scale of their own."""
AGREE = 1e-3
"""Largest deviation of two references that agree."""


def scale_of(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    """Return the scale of each element of an output.

    It is the largest of the 75 % quantiles of the changes between the two references along each axis through the
    element, and over the whole output: boxes in pixels beside scores below one keep scales of their own.

    Args:
        first: reference output for the first input; floating point or complex.
        second: for the second input; magnitudes count instead of changes where None.

    Returns:
        float64, of the output's shape, at least 0.
    """
    import numpy as np

    wide = first.astype(np.complex128 if kind_of(first) == "c" else np.float64)
    with np.errstate(all="ignore"):
        change = np.abs(wide if second is None else wide - second)
    change = np.where(np.isfinite(change), change, 0.0)
    moved = change[change > 0]
    scale = np.full(change.shape, float(np.quantile(moved, QUANTILE)) if moved.size else 0.0)
    if moved.size * 2 > change.size:  # where most is masked, a line's own quantile is that of its mask
        scale[...] = np.quantile(change, QUANTILE)
    for axis, extent in enumerate(change.shape):
        if extent >= FEWEST and extent < change.size:
            np.maximum(scale, np.quantile(change, QUANTILE, axis=axis, keepdims=True), out=scale)
    return scale


def moved(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any], rounded: float) -> bool:
    """Whether an output changed from one input to another by more than rounding may do.

    A mean over tokens that were only moved changes by rounding. Of the elements that changed, one in ten at least must
    have changed by more than a share of its magnitude.

    Args:
        first: reference output for the first input.
        second: for the second.
        rounded: that share: what float32 may deviate by in this program, so that what moves less proves nothing.
    """
    import numpy as np

    if first.shape != second.shape:
        return True
    if kind_of(first) not in "fc":
        return not np.array_equal(first, second)
    kind = np.complex128 if kind_of(first) == "c" else np.float64
    a, b = first.astype(kind), second.astype(kind)
    with np.errstate(all="ignore"):
        share = np.abs(a - b) / (np.abs(a) + np.abs(b))
    share = share[np.isfinite(share) & (share > 0)]
    return bool(share.size) and float(np.quantile(share, 0.9)) > rounded


def deviation(
    want: np.ndarray[Any, Any], got: np.ndarray[Any, Any], scale: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Return |want − got| / (|want| + scale) of each element; 0 where both are equal, NaN and infinities included.

    Args:
        want: reference; floating point or complex.
        got: of the same shape and type.
        scale: what :func:`scale_of` gave.
    """
    import numpy as np

    kind = np.complex128 if kind_of(want) == "c" else np.float64
    a, b = want.astype(kind), got.astype(kind)
    with np.errstate(all="ignore"):
        found = np.abs(a - b) / (np.abs(a) + scale)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    return np.where(same, 0.0, np.where(np.isnan(found), np.inf, found))


def decibels(signal: float, noise: float) -> float:
    """Return a signal-to-noise ratio of two sums of squares, dB; −∞ where it is 0, or not known as both overflow."""
    ratio = signal / noise if noise else math.inf
    return 10 * math.log10(ratio) if ratio > 0 else -math.inf


def agree(first: Sequence[np.ndarray[Any, Any]], second: Sequence[np.ndarray[Any, Any]], most: float = AGREE) -> bool:
    """Whether two gave the same, but for deviations up to ``most``; whole numbers and truths are equal."""
    import numpy as np

    for a, b in zip(first, second, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if kind_of(a) not in "fc":
            if not np.array_equal(a, b):
                return False
        elif a.size and not float(deviation(a, b, scale_of(a, None)).max()) <= most:
            return False
    return True
