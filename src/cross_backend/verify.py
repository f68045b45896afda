"""Verify: compare outputs with what eager float32 gave for the same inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cross_backend.records import Comparison

TOLERANCES: Mapping[str, float] = {"fp32": 1e-4, "fp16": 2e-2, "bf16": 1e-1, "int8": 3e-1}
"""Precision → largest accepted error of an element, as a share of the largest magnitude in its reference output."""


def tolerance_of(options: Mapping[str, Any]) -> float:
    """Give the tolerance for a target's options; float32 where they name no precision."""
    return TOLERANCES[str(options.get("precision", "fp32"))]


def compare_outputs(expected: Sequence[Any], outputs: Sequence[Any], tolerance: float) -> Comparison:
    """Compare NumPy arrays pairwise.

    An error is judged against the largest magnitude of the whole reference output, because an element
    near zero says nothing about how right the arithmetic was. Integers and booleans must be equal.
    """
    import numpy as np

    if len(expected) != len(outputs):
        return _wrong(tolerance, f"gives {len(outputs)} output(s) instead of {len(expected)}")
    signal = noise = dot = norm = 0.0
    max_abs = max_rel = 0.0
    for index, (want, got) in enumerate(zip(expected, outputs, strict=True)):
        if want.shape != got.shape:
            return _wrong(tolerance, f"output {index} has shape {list(got.shape)} instead of {list(want.shape)}")
        if want.dtype != got.dtype:
            return _wrong(tolerance, f"output {index} has type {got.dtype} instead of {want.dtype}")
        if want.dtype.kind in "biu":
            if not np.array_equal(want, got):
                return _wrong(
                    tolerance, f"output {index} differs in {int((want != got).sum())} of {want.size} elements"
                )
            continue
        a, b = want.astype(np.float64), got.astype(np.float64)
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return _wrong(tolerance, f"output {index} has {int((~np.isfinite(b)).sum())} NaN or infinite element(s)")
        usable = np.isfinite(a)
        if not np.array_equal(a[~usable], b[~usable], equal_nan=True):
            return _wrong(tolerance, f"output {index} differs in its NaN or infinite elements")
        a, b = a[usable], b[usable]
        if a.size == 0:
            continue
        difference = float(np.abs(a - b).max())
        peak = float(np.abs(a).max())
        max_abs = max(max_abs, difference)
        max_rel = max(max_rel, difference / peak if peak else (math.inf if difference else 0.0))
        signal += float((a * a).sum())
        noise += float(((a - b) ** 2).sum())
        dot += float((a * b).sum())
        norm += float((b * b).sum())
    sqnr = math.inf if noise == 0 else (10 * math.log10(signal / noise) if signal else -math.inf)
    cosine = dot / math.sqrt(signal * norm) if signal and norm else float(signal == norm)
    right = max_rel <= tolerance
    reason = None if right else f"error {max_rel:.2g} of the largest output; {tolerance:.0e} is allowed"
    return Comparison(max_abs, max_rel, sqnr, cosine, tolerance, right, reason)


def _wrong(tolerance: float, reason: str) -> Comparison:
    return Comparison(math.nan, math.nan, math.nan, math.nan, tolerance, verdict=False, reason=reason)
