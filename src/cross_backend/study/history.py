"""History: one target's latency from study to study, and where it changed by more than chance explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cross_backend.measure.quantiles import CONFIDENCE
from cross_backend.measure.statistics import unpaired_ratio
from cross_backend.measurement import Interval
from cross_backend.records import Outcome, Panel, PanelKey, Result, StudyResults
from cross_backend.study.diff import beyond, by_key


@dataclass(frozen=True)
class Moment:
    """The target in one study."""

    study: int
    """Its number in the store."""
    started: str
    outcome: Outcome
    latency_ms: Interval | None
    """None where it was not verified, or not timed."""
    change: Interval | None = None
    """Latency / latency of the moment before, where both are known."""
    changed: bool = False
    """Whether that is a change point: chance and this machine do not explain it, whichever of all moments it is."""


def history(studies: Sequence[tuple[int, StudyResults]], key: PanelKey, target: str) -> list[Moment]:
    """Return a target's moments in the order of the studies.

    Neighbours are compared with the interval widened for the number of comparisons (Bonferroni), so that all change
    points together are wrong with a probability of at most 5 %; and a change lies beyond the larger noise floor.
    Studies of other machines than the last one's are left out: they would look like changes.
    """
    machine = studies[-1][1].machine.digest if studies else ""
    seen = [
        (number, results, *found)
        for number, results in studies
        if results.machine.digest == machine and (found := by_key(results).get((key, target))) is not None
    ]
    confidence = 1 - (1 - CONFIDENCE) / max(len(seen) - 1, 1)
    moments: list[Moment] = []
    before: tuple[Panel, Result] | None = None
    for number, results, panel, result in seen:
        latency = result.latency_ms if result.outcome is Outcome.OK and result.unranked is None else None
        change, changed = _change(before, (panel, result), confidence) if latency is not None else (None, False)
        moments.append(Moment(number, results.started, result.outcome, latency, change, changed))
        before = (panel, result) if latency is not None else before
    return moments


def _change(
    before: tuple[Panel, Result] | None, after: tuple[Panel, Result], confidence: float
) -> tuple[Interval | None, bool]:
    if before is None or before[1].latency is None or after[1].latency is None:
        return None, False
    ratio = unpaired_ratio(after[1].latency, before[1].latency, confidence)
    floors = [panel.noise_floor for panel, _ in (before, after)]
    if ratio is None or None in floors:
        return ratio, False
    return ratio, beyond(ratio, max(floor for floor in floors if floor is not None)) is not None
