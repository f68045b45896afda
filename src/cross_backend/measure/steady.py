"""Steady state: from which call on a fresh process runs at the level that it stays at, if it does."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FEWEST_CALLS = 30
"""A shorter series cannot be judged."""
SAME_LEVEL = 0.02
"""Levels that differ by less, relatively, are the same."""
STEADY_SHARE = 1 / 3
"""The steady part is at least this much of the series; else it is not known to be steady."""
PENALTY = 6.0
"""A change must explain this much · log(batches) · noise variance; see :func:`steady_from`."""


def steady_from(values: Sequence[float]) -> int | None:
    """Return the index of the first call that is steady.

    A fixed number of warm-up calls is too many for one program and too few for the next. So the series is cut into
    segments of constant level (change points), as Barrett et al. do (*Virtual Machine Warmup Blows Hot and Cold*,
    OOPSLA 2017), and the steady part begins where all further segments have the last one's level:

    1. Medians of batches of five calls (three below 60 calls): single outliers are gone.
    2. The cut that minimises Σ (batch − level of its segment)² + PENALTY·σ²·log(batches) per segment, by dynamic
       programming (Jackson et al., *IEEE Signal Process. Lett.* 12, 2005). σ comes from the differences of neighbouring
       batches, so a level shift does not inflate it.
    3. Two levels are the same if they differ by less than 2 %, or than twice the scatter of single calls.
    4. The halves of what is left must have the same level, too: a slow trend has no sudden change.

    Simulated (benchmarks/statistics_simulated.py), it finds the end of a sudden or exponential warm-up within some ten
    calls, says None to trends, late jumps and cycles, and is not moved by outliers. MSER-5 (White, *Simulation* 69,
    1997), tried on the same series, called every cycle and the late jumps of shorter series steady.

    Args:
        values: durations of the calls in order, from the first of the process; 50 to 300 are good.

    Returns:
        0 where it is steady from the start; None where it never becomes steady, or where there are fewer than
        :data:`FEWEST_CALLS` calls.
    """
    if len(values) < FEWEST_CALLS:
        return None
    import numpy as np

    calls = np.asarray(values, float)
    size = 5 if len(calls) >= 60 else 3
    skipped = len(calls) % size
    batches = np.median(calls[skipped:].reshape(-1, size), axis=1)
    same = max(SAME_LEVEL * float(np.median(batches)), 2 * _scatter(calls))
    noise = max(_scatter(batches), SAME_LEVEL / 4 * float(np.median(batches)))
    segments = _segments(batches, PENALTY * math.log(len(batches)) * noise**2)
    last = float(np.median(batches[slice(*segments[-1])]))
    start = segments[-1][0]
    for begin, end in reversed(segments):
        if abs(float(np.median(batches[begin:end])) - last) > same:
            break
        start = begin
    index = skipped + start * size if start else 0
    steady = calls[index:]
    half = len(steady) // 2
    if len(steady) < STEADY_SHARE * len(calls) or abs(np.median(steady[:half]) - np.median(steady[half:])) > same:
        return None
    return index


def _scatter(values: np.ndarray) -> float:
    """Return the standard deviation of single values around their level, from the differences of neighbours."""
    import numpy as np

    steps = np.diff(values)
    return float(1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2))


def _segments(batches: np.ndarray, penalty: float) -> list[tuple[int, int]]:
    """Cut into segments of constant level at the least cost; each has two batches at least, the last may have one."""
    import numpy as np

    count = len(batches)
    centred = batches - batches.mean()  # sums of squares lose digits far from zero
    sums, squares = (np.concatenate([[0.0], np.cumsum(one)]) for one in (centred, centred**2))
    cost, before = np.full(count + 1, np.inf), np.zeros(count + 1, int)
    cost[0] = 0.0
    for end in range(1, count + 1):
        starts = np.arange(max(end if end == count else end - 1, 1))
        total = sums[end] - sums[starts]
        fit = squares[end] - squares[starts] - total**2 / (end - starts)
        costs = cost[starts] + fit + penalty
        before[end] = int(np.argmin(costs))
        cost[end] = costs[before[end]]
    found, end = [], count
    while end > 0:
        found.append((int(before[end]), end))
        end = int(before[end])
    return found[::-1]
