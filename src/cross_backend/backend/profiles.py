"""From the rows that a profiler recorded in every run to one table, or to one typical run."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from cross_backend.records import Timing

Recorded = Sequence[Sequence[Timing]]
"""The rows of each run, in the order in which the operators ran."""


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


def in_order(runs: Recorded) -> tuple[Timing, ...]:
    """Return the run that most are like, operator by operator, each with its median time over those runs."""
    kinds = [tuple((row.name, row.kind) for row in run) for run in runs]
    usual = Counter(kinds).most_common(1)[0][0] if kinds else ()
    alike = [run for run, kind in zip(runs, kinds, strict=True) if kind == usual]
    return tuple(
        Timing(rows[0].name, rows[0].kind, rows[0].calls, statistics.median(row.ms for row in rows))
        for rows in zip(*alike, strict=True)
    )
