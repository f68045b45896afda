"""From the profiler's rows of every run to one table; shared by the backends that profile."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from cross_backend.records import Timing


def typical(runs: Sequence[Iterable[Timing]]) -> tuple[Timing, ...]:
    """Add up the rows of one name and kind within each run; return medians over the runs, most expensive first."""
    calls: dict[tuple[str, str], list[int]] = {}
    ms: dict[tuple[str, str], list[float]] = {}
    for index, run in enumerate(runs):
        for row in run:
            key = row.name, row.kind
            calls.setdefault(key, [0] * len(runs))[index] += row.calls
            ms.setdefault(key, [0.0] * len(runs))[index] += row.ms
    rows = [Timing(*key, statistics.median_high(calls[key]), statistics.median(ms[key])) for key in calls]
    return tuple(sorted((row for row in rows if row.calls), key=lambda row: (-row.ms, row.name, row.kind)))
