"""What came of one target of a panel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Placement
from cross_backend.records.numbers import finite
from cross_backend.records.profiles import Execution
from cross_backend.records.verdict import Agreement, Comparison, Outcome

INTERRUPTED = "interrupted"
"""Why a target was not measured, or has no rank."""

PEAK = "memory.peak_rss"
"""Metric of the peak memory of a target's process."""

LOCALIZED = "localize"
"""Key of ``Further.notes``: which operator a target with wrong outputs computes wrongly."""

TOO_FEW = "too few calls for a comparison"
"""Why a target that was measured has no rank."""


@dataclass(frozen=True, kw_only=True)
class Further:
    """What the instruments beside latency gave for one target of a panel."""

    measurements: tuple[Measurement, ...] = ()
    absent: Mapping[str, str] = field(default_factory=dict)
    """Instrument or metric → why it could not be measured here."""
    task: Mapping[str, float] = field(default_factory=dict)
    """Task metric → value, for workloads that have one."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Metric → what a reader must know: which part of the machine an energy is of."""
    failures: Mapping[str, str] = field(default_factory=dict)
    """Instrument → how the target's process ended while it was taken; the figures beside it stand."""
    localized: Mapping[str, Any] | None = None
    """Document of ``localize`` where the outputs are wrong and their operator was sought."""


@dataclass(frozen=True)
class Result(Further):
    """What came of one target: outcome, reason, latency, rank.

    Example:
        >>> panel = xb.compare(program, ["torch", "xnnpack"])  # doctest: +SKIP
        >>> for result in panel.results:  # doctest: +SKIP
        ...     print(result.target, result.outcome, result.reason)
    """

    workload: str
    target: str
    """Full target."""
    title: str
    """How tables call it."""
    outcome: Outcome
    reason: str | None = None
    """Why it is not OK, or what to know although it is."""
    rank: int | None = None
    """1 is the fastest; targets without a detectable difference share a rank."""
    latency: Measurement | None = None
    latency_ms: Interval | None = None
    """Median, 95 % interval; milliseconds."""
    mean_ms: float | None = None
    """Average of all samples, milliseconds."""
    ratio: Interval | None = None
    """Its latency over that of the panel's leader, the first of ``Panel.ranked``, where both were measured in the
    same rounds: 1.2 takes 20 % longer. It decides: an interval without 1 is a difference. Exactly 1 for the leader;
    None without a rank."""
    comparison: Comparison | None = None
    placement: Placement | None = None
    size_bytes: int | None = None
    export_s: float | None = None
    """Seconds that lowering took when it was done; kept with a cached artifact."""
    load_s: float | None = None
    """Seconds from asking the runtime to load to a session that is ready."""
    cached: bool = False
    """Whether the artifact came from the cache."""
    sample_output: tuple[float, ...] = ()
    """First values of the first output, for small models."""
    warnings: tuple[str, ...] = ()
    """What may have disturbed the measurement, by cause."""
    execution: Execution | None = None
    """Where it really ran; None where the runtime cannot but run it where it was asked to."""
    unranked: str | None = None
    """Why it has no rank although it is right: ``not on CUDA: 0.7 %``, or that it is a functional check only."""
    asked: str | None = None
    """Precision that its options ask for, by default or by name; None where they know none."""
    agreement: Agreement | None = None
    """With float32; None where that was not asked, as the model has a task or nothing computes in less."""

    @property
    def precision(self) -> str | None:
        """Arithmetic: what the runtime reports, else what the target asks for; None where neither names one."""
        if self.execution is not None and self.execution.precision:
            return self.execution.precision
        if self.asked is not None:
            return self.asked
        options = (option.partition("=") for option in self.target.partition("?")[2].split("&"))
        return next((value for key, _, value in options if key == "precision"), None)

    @property
    def unfinished(self) -> bool:
        """Whether it would have a rank if the comparison had gone on."""
        return self.outcome is Outcome.NOT_MEASURED or self.unranked in {INTERRUPTED, TOO_FEW}

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document; absent values are null."""
        latency = None
        if self.latency_ms is not None and self.latency is not None:
            latency = {
                "median": self.latency_ms.value,
                "low": self.latency_ms.low,
                "high": self.latency_ms.high,
                "mean": self.mean_ms,
                "n": self.latency.count,
            }
        return {
            "workload": self.workload,
            "target": self.target,
            "outcome": str(self.outcome),
            "rank": self.rank,
            "latency_ms": latency,
            "ratio": {key: finite(end) for key, end in asdict(self.ratio).items()} if self.ratio else None,
            "error": self.comparison.to_json() if self.comparison else None,
            "coverage": self.placement.coverage if self.placement else None,
            "placement": self.placement.to_json() if self.placement else None,
            "size_bytes": self.size_bytes,
            "export_s": self.export_s,
            "load_s": self.load_s,
            "cached": self.cached,
            "task": dict(self.task) or None,
            "agreement": self.agreement.to_json() if self.agreement else None,
            "execution": self.execution.to_json() if self.execution else None,
            "unranked": self.unranked,
            "measurements": [
                {"metric": m.metric, "unit": m.unit, "n": m.count, "median": m.median}
                for m in self.measurements
                if m.count
            ],
            "not_measured": dict(self.absent),
            "notes": dict(self.notes),
            "failures": dict(self.failures),
            "warnings": list(self.warnings),
            "reason": self.reason,
        }


def peak_of(result: Result) -> int | None:
    """Return the peak memory of a result's process, bytes; None where it was not read."""
    found = next((one for one in result.measurements if one.metric == PEAK and one.count), None)
    return None if found is None else round(found.median)
