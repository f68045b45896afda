"""Results, launches and targets of which panels are made, and what is asked of one."""

from __future__ import annotations

import math
from dataclasses import replace

from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.exporting.export import Exported, ExportSettings, export
from cross_backend.measurement import Measurement
from cross_backend.program.captured import Captured
from cross_backend.records import Comparison, Launch, Outcome, Panel, Result

QUICK = Settings(num_runs=90, seconds=1.0, timeout_s=120.0, launches=1)


def result(latency: Measurement | None = None, **changes: object) -> Result:
    """Give a result that is right."""
    right = Comparison(0.0, 0.0, math.inf, 1.0, 1e-4, verdict=True)
    return replace(Result("net_batch4", "cpu", "CPU", Outcome.OK, comparison=right, latency=latency), **changes)


def times(*rounds: float) -> Measurement:
    """Give a launch of one call a round."""
    return Measurement("latency", "ns", tuple((ns,) for ns in rounds), (len(rounds),))


SIX = times(*range(100, 106))
NOISY = times(90, 95, 100, 120, 90, 99)


def lasting(seconds: float, *milliseconds: float | None, twin_of: int = 0) -> Launch:
    """Give a launch that took so long; None where a target was not started."""
    rows = [result(None if ms is None else times(*[ms * 1e6] * 8)) for ms in milliseconds]
    return Launch(tuple(rows), rows[twin_of], twin_of, (), seconds)


FAR, NEAR = (1.0, 1.5, 3.0), (1.0, 1.01, 3.0)
AGAIN = (1.0, 1.01, None)


def rows_of(linear: Captured, *targets: str) -> list[Exported]:
    """Export to backends that cost little."""
    return export(linear, targets, ExportSettings(Cache(), jobs=1))[1]


def outcomes(panel: Panel) -> list[Outcome]:
    return [result.outcome for result in panel.results]
