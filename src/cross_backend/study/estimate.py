"""Estimate: how long a study may take: ranges, told as estimates with what they rest on.

That is floating point operations and stated rates; while a study runs, what its first panels took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cross_backend.cache import Cache
from cross_backend.instruments.table import INSTRUMENTS
from cross_backend.machine import Machine
from cross_backend.program.captured import Captured
from cross_backend.program.captures import find_capture
from cross_backend.study.cells import Cell, cells
from cross_backend.study.spec import PanelSpec, StudySettings, StudySpec
from cross_backend.workloads import WORKLOADS


@dataclass(frozen=True)
class Seconds:
    """A duration that is not known."""

    low: float
    high: float

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.low + other.low, self.high + other.high)

    def times(self, low: float, high: float | None = None) -> Seconds:
        """Return the duration of so many."""
        return Seconds(self.low * low, self.high * (low if high is None else high))

    def __str__(self) -> str:
        low, high = _spoken(self.low), _spoken(self.high)
        number, _, unit = high.partition(" ")
        if unit == "min" and self.low >= 30:
            low = f"{round(self.low / 30) / 2:g} {unit}" if self.low < 300 else f"{round(self.low / 60)} {unit}"
        if low == high:
            return low
        return f"{low.removesuffix(f' {unit}')} to {number} {unit}"


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
INSTRUMENT_CALLS = Seconds(4, 30)
"""Calls of an instrument that a time box does not shorten."""
FLOPS_PER_S = (30e9, 150e9)
"""Of one processor thread in float32; from MobileNet, ResNet and BERT on six runtimes of a 2-core machine."""
CALL_WITHOUT_FLOPS = Seconds(0.0, 0.2)
EARLIER = 1.3
"""How far durations differ from run to run."""
FIRST_SHARE = 0.15
"""Share of a panel from which on its duration says something about the rest."""


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

    def left(self, finished_s: Sequence[float], share: float = 0.0, current_s: float = 0.0) -> Seconds:
        """Return what the rest may take, when the first panels took so long.

        What was estimated wrongly so far is taken to be wrong alike in the rest. While the first panel runs, the range
        narrows with its share.

        Args:
            finished_s: wall times of the finished panels, seconds, in order.
            share: of the next panel that is done.
            current_s: seconds since the next panel was begun.
        """
        current, *later = (*self.panels[len(finished_s) :], NOTHING)
        rest = sum(later, current.times(1 - share))
        early = share < FIRST_SHARE or current_s <= 0  # lowering has no share of its own
        expected = sum(self.panels[: len(finished_s)], NOTHING if early else current.times(share))
        if expected.low <= 0:
            return rest
        factor = (sum(finished_s) + (0.0 if early else current_s)) / math.sqrt(expected.low * expected.high)
        middle = math.sqrt(rest.low * rest.high) * factor
        spread = EARLIER if finished_s else EARLIER * math.sqrt(expected.high / expected.low) ** (1 - share)
        return Seconds(max(rest.low * factor, middle / spread), min(rest.high * factor, middle * spread))


def plan(study: StudySpec, cache: Cache) -> tuple[Sequence[Cell], Estimate]:
    """Return the cells of a study and the estimated durations of its panels; imports no torch."""

    def captured(panel: PanelSpec) -> Captured | None:
        return find_capture(panel.workload.source(panel.batch), cache)

    def flops(panel: PanelSpec) -> float | None:
        row = WORKLOADS.get(panel.workload.model)
        if row is not None and row.flops is not None:
            return row.flops * panel.batch
        found = captured(panel)
        return found.flops if found else None

    planned = cells(study, captured, cache, Machine.here())
    return planned, estimate(study, planned, flops)


def estimate(study: StudySpec, planned: Sequence[Cell], flops: Callable[[PanelSpec], float | None]) -> Estimate:
    """Estimate a study.

    Args:
        study: what will be measured.
        planned: from :func:`cells`.
        flops: floating point operations of one call of a panel's program with its batch; None where unknown.
    """
    made = set[tuple[str, int]]()
    panels = []
    for panel in study.panels():
        mine = [cell for cell in planned if cell.panel == panel and cell.runs]
        panels.append(_panel(panel, mine, flops(panel), study.settings, made))
        made.add((panel.workload.name, panel.batch))
    low, high = (rate / 1e9 for rate in FLOPS_PER_S)
    return Estimate(
        tuple(panels),
        f"An estimate, from the model's floating point operations at {low:g} to {high:g} billion per second and "
        "thread, and usual durations of lowering, starting and loading.",
    )


def _panel(
    panel: PanelSpec, mine: Sequence[Cell], flops: float | None, settings: StudySettings, made: set[tuple[str, int]]
) -> Seconds:
    if not mine:
        return NOTHING
    seconds = NOTHING
    if (panel.workload.name, panel.batch) not in made:  # other numbers of threads share program and artifacts
        seconds += NOTHING if all(cell.captured for cell in mine) else CAPTURE
        workers = settings.jobs or Machine.here().usable_cpus
        lowered = sum(not cell.cached for cell in mine)
        seconds += LOWERING.times(lowered / min(workers, lowered)) if lowered else NOTHING
    call = _call(panel, flops)
    seconds += _measuring(call, settings).times(len(mine) + 1)  # the fastest has a twin
    for name in settings.instruments:
        each = Seconds(*INSTRUMENTS[name].cost_s)
        low, high = max(each.low, INSTRUMENT_CALLS.low * call.low), max(each.high, INSTRUMENT_CALLS.high * call.high)
        seconds += Seconds(low, high).times(len(mine))
    return seconds


def _measuring(call: Seconds, settings: StudySettings) -> Seconds:
    """Estimate all launches of one target."""
    launch = START + LOAD + WARM_S + call.times(CALLS)
    if settings.margin is None:
        return launch.times(settings.launches) + Seconds(settings.seconds * 0.8, settings.seconds)
    return launch.times(settings.launches, settings.max_launches) + Seconds(settings.seconds * 0.2, settings.seconds)


def _call(panel: PanelSpec, flops: float | None) -> Seconds:
    if flops is None:
        return CALL_WITHOUT_FLOPS.times(panel.batch)
    slow, fast = FLOPS_PER_S
    return Seconds(flops / fast / panel.threads, flops / slow)


def _spoken(seconds: float) -> str:
    """Round a duration to what an estimate can mean."""
    if seconds < 90:
        return f"{max(1, round(seconds / 5) * 5 if seconds > 10 else round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h"
