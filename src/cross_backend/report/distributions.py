"""Distributions: what tables and charts need of a target's samples, taken from them in one pass of NumPy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.measurement import Measurement

if TYPE_CHECKING:
    from numpy.typing import NDArray

CURVE_POINTS = 200
"""Steps of a drawn distribution function; more could not be seen."""
TAIL = (0.995, 0.999, 0.9995, 0.9999, 0.99999)
"""Levels between the last even step and the largest sample, where the slow calls are."""
BINS = 48
MIN_FOR_DENSITY = 30
"""With fewer samples a density would show the bins and not the target."""


@dataclass(frozen=True)
class Distribution:
    """A summary of samples, in milliseconds."""

    count: int
    levels: tuple[float, ...]
    """Shares of the calls, ascending to 1."""
    values: tuple[float, ...]
    """At each level the smallest sample that so many calls do not exceed."""
    marks: tuple[float, ...]
    """Smallest sample, P5, P25, P50, P75, P95, P99, largest sample."""
    density: tuple[tuple[float, float], ...]
    """(ms, share of the highest) at equal steps of the logarithm; empty where there are too few samples."""


MARKS = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
MARK_NAMES = ("min", "P5", "P25", "P50", "P75", "P95", "P99", "max")


def array(measurement: Measurement) -> NDArray[Any]:
    """Return all samples as one array, in order; integers stay integers."""
    import numpy as np

    rows = [np.asarray(row) for row in measurement.rounds if len(row)]
    return np.concatenate(rows) if rows else np.empty(0, np.int64)


def distribution(measurement: Measurement) -> Distribution | None:
    """Summarise durations; None without samples.

    Values at a level are order statistics, the ⌈n · level⌉-th smallest (Hyndman & Fan 1996, definition 1), so every
    figure is a sample that was really seen.
    """
    import numpy as np

    samples = array(measurement)
    if samples.dtype.kind == "f":
        samples = samples[np.isfinite(samples)]
    if not len(samples):
        return None
    samples = np.sort(samples)
    n = len(samples)
    if n <= CURVE_POINTS:
        levels = np.arange(1, n + 1) / n
    else:
        even = np.arange(1, CURVE_POINTS) / CURVE_POINTS
        levels = np.unique(np.concatenate([[1 / n], even, [level for level in TAIL if level < 1 - 1 / n], [1.0]]))
    return Distribution(
        n,
        tuple(levels.tolist()),
        tuple((samples[_ranks(levels, n)] / 1e6).tolist()),
        tuple((samples[_ranks(np.asarray(MARKS), n)] / 1e6).tolist()),
        _density(samples),
    )


def _ranks(levels: NDArray[Any], n: int) -> NDArray[Any]:
    import numpy as np

    # 0.07 * 100 is a little above 7 in binary: without the small amount the rank would be one too high.
    return np.clip(np.ceil(levels * n - 1e-9).astype(np.int64) - 1, 0, n - 1)


def _density(ordered: NDArray[Any]) -> tuple[tuple[float, float], ...]:
    """Count samples in bins of equal ratio between P0.5 and P99.5, and smooth them a little."""
    import numpy as np

    low, high = (float(ordered[index]) for index in _ranks(np.asarray([0.005, 0.995]), len(ordered)))
    if len(ordered) < MIN_FOR_DENSITY or low <= 0 or high <= low:
        return ()
    edges = np.exp(np.linspace(math.log(low), math.log(high), BINS + 1))
    counts = np.diff(np.searchsorted(ordered, edges, side="right")).astype(float)
    smooth = np.convolve(counts, [0.25, 0.5, 0.25], mode="same")
    middles = np.sqrt(edges[:-1] * edges[1:]) / 1e6
    return tuple(zip(middles.tolist(), (smooth / smooth.max()).tolist(), strict=True))
