"""A panel with a winner, a tie, a slow one, and every kind of failure."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cross_backend.machine import Machine
from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Operators, Placement
from cross_backend.records import Comparison, Outcome, Panel, Result
from tests.unit.report.studies import FAILURES

EQUAL = Comparison(0.0, 0.0, math.inf, 1.0, 1e-4, verdict=True)
CLOSE = Comparison(1e-6, 2e-6, 117.4, 1.0, 1e-4, verdict=True)
LEADER_MS = 0.5


def ranked(title: str, rank: int, median_ms: float, comparison: Comparison = CLOSE, left: int = 0) -> Result:
    times = median_ms / LEADER_MS
    spread = 1.0 if times == 1 else 0.98
    return Result(
        "net",
        title.lower(),
        title,
        Outcome.OK,
        rank=rank,
        latency=Measurement("latency", "ns", ((int(median_ms * 1e6),) * 10,) * 30),
        latency_ms=Interval(median_ms, median_ms * 0.99, median_ms * 1.01),
        mean_ms=median_ms * 1.02,
        ratio=Interval(times, times * spread, times / spread),
        comparison=comparison,
        placement=Placement({}, (Operators("conv", 9),), (Operators("sort", left),) if left else ()),
        size_bytes=2_500_000,
        load_s=0.25,
        sample_output=(2.718,),
        task={"top-1 accuracy": 0.975},
    )


@pytest.fixture
def panel(machine: Machine) -> Panel:
    failures = [
        Result("net", outcome.lower(), outcome.title(), outcome, f"reason of {outcome}") for outcome in FAILURES
    ]
    slow = replace(ranked("Slow", 4, 200.0, left=1), warnings=("other work disturbed it",))
    rows = (slow, ranked("Fast", 1, LEADER_MS, EQUAL), ranked("Tied", 2, 2.0), ranked("Also", 2, 2.1), *failures)
    return Panel("net", rows, 0.03, {"threads": 1}, machine, found_from=0.05)
