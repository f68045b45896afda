"""Contestant: a target on its way through a launch: what is known of it, and the bench that has it open."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cross_backend.bench.bench import Bench
from cross_backend.errors import CrossBackendError, WorkerError, one_line
from cross_backend.exporting.export import Exported, outcome_of
from cross_backend.measure.disturbance import SWITCHES_PER_S
from cross_backend.measurement import Measurement
from cross_backend.records import Execution, Outcome, Result


@dataclass
class Contestant:
    """A target on its way through a launch."""

    exported: Exported
    result: Result
    bench: Bench | None = None
    is_new: bool = True
    """Whether no earlier launch has opened it."""
    rounds: list[tuple[int, ...]] = field(default_factory=list)
    """Durations of the calls of each block until now, ns."""
    estimate_ms: float = 0.0
    """Median of a call when it was warm."""
    switches: int = 0
    """Involuntary context switches during the blocks."""

    @property
    def running(self) -> bool:
        """Whether it takes part in the rounds."""
        where = self.result.execution
        functional_only = where is not None and where.functional_only is not None
        return self.bench is not None and self.result.outcome is Outcome.OK and not functional_only

    def fail(self, error: CrossBackendError, otherwise: Outcome) -> None:
        """Record the end and close the bench."""
        self.result = replace(self.result, outcome=outcome_of(error, otherwise), reason=one_line(error))
        if self.bench is not None:
            self.bench.close()

    def lack(self, name: str, error: CrossBackendError) -> None:
        """Record why something was not measured; where the process ended over it, that it failed."""
        told = {name: one_line(error)}
        failures = {**self.result.failures, **(told if isinstance(error, WorkerError) else {})}
        self.result = replace(self.result, absent={**self.result.absent, **told}, failures=failures)

    def measured(self, rounds: int) -> Result:
        """Return the result with the latencies; rounds that an interrupt cut off count as empty."""
        if not any(self.rounds):
            return self.result
        latency = Measurement("latency", "ns", (*self.rounds, *[()] * (rounds - len(self.rounds))), (rounds,))
        return replace(
            self.result, latency=latency, warnings=(*self.result.warnings, *_switching(self.switches, latency))
        )


@dataclass(frozen=True)
class Standing:
    """What is known of a target while a comparison runs."""

    title: str
    state: str
    """``waiting``, ``verified``, ``measured``, or how it ended."""
    median_ms: float | None = None
    """Of all timed calls until now."""
    calls: int = 0
    """How many those are."""


def standing(contestant: Contestant, earlier: Sequence[Measurement | None]) -> Standing:
    """Return what is known of a target, with what earlier launches measured."""
    result = contestant.result
    if result.outcome is not Outcome.OK:
        return Standing(result.title, str(result.outcome))
    measured = [ns for one in earlier if one is not None for ns in one.values]
    measured += [ns for calls in contestant.rounds for ns in calls]
    if measured:
        return Standing(result.title, "measured", statistics.median(measured) / 1e6, len(measured))
    return Standing(result.title, "waiting" if result.comparison is None else "verified")


def _switching(switches: int, latency: Measurement) -> tuple[str, ...]:
    busy_s = sum(map(sum, latency.rounds)) / 1e9
    if switches > max(SWITCHES_PER_S * busy_s, 10):
        return (f"{switches} involuntary context switches in {busy_s:.1f} s: other work disturbed it",)
    return ()


def described(workload: str, row: Exported, earlier: Sequence[Exported] = ()) -> Result:
    """Return the result of an export alone; a target that appears in ``earlier`` rows, too, is numbered."""
    target = str(row.resolved.target) if row.resolved else row.text
    title = row.resolved.backend.title if row.resolved else row.text
    options = row.resolved.target.options if row.resolved else {}
    title = " ".join([title, *(f"{key}={value}" for key, value in options.items())])
    repeated = sum(
        row.resolved is not None and b.resolved is not None and b.resolved.target == row.resolved.target
        for b in earlier
    )
    asked = row.resolved.options.get("precision") if row.resolved else None
    title = f"{title} #{repeated + 1}" if repeated else title
    result = Result(workload, target, title, row.outcome, row.reason, asked=None if asked is None else str(asked))
    if row.artifact is None:
        return result
    return replace(
        result,
        placement=row.artifact.placement,
        size_bytes=row.artifact.size_bytes,
        export_s=row.artifact.export_s,
        cached=row.cached,
    )


def unranked(where: Execution | None, floor: float) -> str | None:
    """Return why a right result gets no rank: too little of it ran on the device, or a duration would say nothing.

    Args:
        where: it ran.
        floor: smallest share of the work on the asked device, 0 to 1.
    """
    if where is None:
        return None
    if where.functional_only is not None:
        return where.functional_only
    if where.share is not None and where.share < floor:
        return f"not on {where.device}: {math.floor(where.share * 1000) / 10:g} %"  # rounded down: 89.96 % are not 90
    return None
