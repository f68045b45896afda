"""Estimate: how long a study may take: ranges, told as estimates with what they rest on.

That is earlier results of the same study where there are any, else floating point operations and stated rates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cross_backend.machine import Machine
from cross_backend.records import Panel, Result, StudyResults
from cross_backend.study.cells import Cell
from cross_backend.study.spec import PanelSpec, Study, StudySettings


@dataclass(frozen=True)
class Seconds:
    """A duration that is not known."""

    low: float
    high: float

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.low + other.low, self.high + other.high)

    def times(self, low: float, high: float | None = None) -> Seconds:
        """Give the duration of so many."""
        return Seconds(self.low * low, self.high * (low if high is None else high))

    def __str__(self) -> str:
        low, high = _spoken(self.low), _spoken(self.high)
        return low if low == high else f"{low} to {high}"


NOTHING = Seconds(0.0, 0.0)
CAPTURE = Seconds(4, 20)
"""Building and exporting a model, with the import of torch."""
LOWERING = Seconds(2, 25)
START = Seconds(1, 3)
"""A worker process with its imports, for a target."""
LOAD = Seconds(0.2, 1.5)
WARM_S = Seconds(0.5, 1.5)
"""Reaching a steady state in each launch."""
CALLS = 16
"""Calls of a launch that a time box does not shorten: proof, warm-up, one in each of six rounds and some."""
INSTRUMENTS = {
    "accuracy": Seconds(0.1, 5),
    "energy": Seconds(0.1, 8),
    "memory": Seconds(1, 4),
    "open_loop": Seconds(20, 40),
    "throughput": Seconds(10, 20),
}
OTHER_INSTRUMENT = Seconds(1, 20)
INSTRUMENT_CALLS = Seconds(4, 30)
"""Calls of an instrument that a time box does not shorten."""
FLOPS_PER_S = (30e9, 150e9)
"""Of one processor thread in float32; from MobileNet, ResNet and BERT on six runtimes of a 2-core machine."""
CALL_WITHOUT_FLOPS = Seconds(0.0, 0.2)
EARLIER = 1.3
"""How far durations differ from run to run."""


@dataclass(frozen=True)
class Estimate:
    """How long a study may take."""

    panels: tuple[Seconds, ...]
    """In the study's order."""
    basis: str
    """What it rests on, in one sentence."""

    @property
    def total(self) -> Seconds:
        """All panels together."""
        return sum(self.panels, NOTHING)

    def left(self, finished_s: Sequence[float]) -> Seconds:
        """Give what the other panels may take, when the first ones took so long.

        What was estimated wrongly so far is taken to be wrong alike in the rest.

        Args:
            finished_s: wall times of the finished panels, seconds, in order.
        """
        rest = sum(self.panels[len(finished_s) :], NOTHING)
        expected = sum(self.panels[: len(finished_s)], NOTHING)
        if not finished_s or expected.low <= 0:
            return rest
        factor = sum(finished_s) / math.sqrt(expected.low * expected.high)
        middle = math.sqrt(rest.low * rest.high) * factor
        return Seconds(max(rest.low * factor, middle / EARLIER), min(rest.high * factor, middle * EARLIER))


def estimate(
    study: Study,
    planned: Sequence[Cell],
    flops: Callable[[PanelSpec], float | None],
    earlier: StudyResults | None = None,
) -> Estimate:
    """Estimate a study.

    Args:
        study: what will be measured.
        planned: from :func:`cells`.
        flops: floating point operations of one call of a panel's program with its batch; None where unknown.
        earlier: results of the same or a similar study on this machine.
    """
    measured: Sequence[Panel] = earlier.panels if earlier else ()
    known = {(p.workload, p.batch, p.settings.get("threads"), r.target): r for p in measured for r in p.results}
    used, total, made = 0, 0, set[tuple[str, int]]()
    panels = []
    for panel in study.panels():
        mine = [cell for cell in planned if cell.panel == panel and cell.runs]
        rows = [known.get((panel.workload.name, panel.batch, panel.threads, cell.target)) for cell in mine]
        used += sum(row is not None and row.latency_ms is not None for row in rows)
        total += len(mine)
        panels.append(_panel(panel, mine, rows, flops(panel), study.settings, made))
        made.add((panel.workload.name, panel.batch))
    return Estimate(tuple(panels), _basis(used, total))


def _basis(used: int, total: int) -> str:
    low, high = (rate / 1e9 for rate in FLOPS_PER_S)
    guess = (
        f"the model's floating point operations at {low:g} to {high:g} billion per second and thread, "
        "and usual durations of lowering, starting and loading"
    )
    if not used:
        return f"An estimate, from {guess}."
    rest = "" if used == total else f"; of the others, from {guess}"
    return f"An estimate, from earlier results of {used} of {total} cells{rest}."


def _panel(
    panel: PanelSpec,
    mine: Sequence[Cell],
    rows: Sequence[Result | None],
    flops: float | None,
    settings: StudySettings,
    made: set[tuple[str, int]],
) -> Seconds:
    if not mine:
        return NOTHING
    seconds = NOTHING
    if (panel.workload.name, panel.batch) not in made:  # other numbers of threads share program and artifacts
        seconds += NOTHING if all(cell.captured for cell in mine) else CAPTURE
        workers = settings.jobs or Machine.here().usable_cpus
        lowered = [_lowering(row) for cell, row in zip(mine, rows, strict=True) if not cell.cached]
        seconds += sum((one.times(1 / min(workers, len(lowered))) for one in lowered), NOTHING)
    measured = [_measuring(row, _call(panel, row, flops), settings) for row in rows]
    twin = Seconds(min(one.low for one in measured), max(one.high for one in measured))
    seconds += sum(measured, twin)
    for row in rows:
        call = _call(panel, row, flops)
        for name in settings.instruments:
            each = INSTRUMENTS.get(name, OTHER_INSTRUMENT)
            seconds += Seconds(
                max(each.low, INSTRUMENT_CALLS.low * call.low), max(each.high, INSTRUMENT_CALLS.high * call.high)
            )
    return seconds


def _measuring(row: Result | None, call: Seconds, settings: StudySettings) -> Seconds:
    """Estimate all launches of one target."""
    load = _about(row.load_s) if row is not None and row.load_s is not None else LOAD
    launch = START + load + WARM_S + call.times(CALLS)
    if settings.margin is None:
        return launch.times(settings.launches) + Seconds(settings.seconds * 0.8, settings.seconds)
    return launch.times(settings.launches, settings.max_launches) + Seconds(settings.seconds * 0.2, settings.seconds)


def _lowering(row: Result | None) -> Seconds:
    return LOWERING if row is None or row.export_s is None else _about(row.export_s)


def _call(panel: PanelSpec, row: Result | None, flops: float | None) -> Seconds:
    if row is not None and row.latency_ms is not None:
        return _about(row.latency_ms.value / 1e3)
    if flops is None:
        return CALL_WITHOUT_FLOPS.times(panel.batch)
    slow, fast = FLOPS_PER_S
    return Seconds(flops / fast / panel.threads, flops / slow)


def _about(seconds: float) -> Seconds:
    return Seconds(seconds / EARLIER, seconds * EARLIER)


def _spoken(seconds: float) -> str:
    """Round a duration to what an estimate can mean."""
    if seconds < 90:
        return f"{max(1, round(seconds / 5) * 5 if seconds > 10 else round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
