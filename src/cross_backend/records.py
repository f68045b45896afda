"""Records: the immutable rows that join running to reporting; no torch, no NumPy at import."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from cross_backend.machine import Machine
from cross_backend.measurement import Interval, Measurement
from cross_backend.placement import Placement

SCHEMA = 2
"""Version of the JSON document. History: 1, the first; 2, results have their ``ratio`` to the leader, and ``panels``
says of each panel how it was measured and from what size on a difference is found. Nothing was taken away."""


class Outcome(StrEnum):
    """How a trial ended."""

    OK = "OK"
    UNAVAILABLE = "UNAVAILABLE"
    """Not on this machine: reason and remedy."""
    UNSUPPORTED = "UNSUPPORTED"
    """The backend can never take this program."""
    LOWER_FAIL = "LOWER_FAIL"
    LOAD_FAIL = "LOAD_FAIL"
    RUN_FAIL = "RUN_FAIL"
    TIMEOUT = "TIMEOUT"
    MISMATCH = "MISMATCH"
    """It ran, and its outputs are wrong."""
    NOT_PROVED = "NOT_PROVED"
    """It ran, its outputs are those of the reference, and that proves nothing: they do not depend on the input, say."""
    NOT_MEASURED = "NOT_MEASURED"
    """The user stopped the comparison before this target's turn."""


INTERRUPTED = "interrupted"
"""Why a target was not measured, or has no rank."""
TOO_FEW = "too few calls for a comparison"
"""Why a target that was measured has no rank."""


@dataclass(frozen=True)
class Comparison:
    """Outputs against the reference, over all outputs."""

    max_abs: float
    """Largest absolute difference."""
    max_rel: float
    """Largest deviation of an element: its difference over its own magnitude plus its scale; see ``deviation``."""
    sqnr_db: float
    """Signal to quantisation noise ratio, 10·log10(Σ ref² / Σ (out − ref)²), dB; infinite when equal."""
    cosine: float
    """Cosine of the angle between output and reference; 1 when equal."""
    tolerance: float
    """What ``max_rel`` may be."""
    verdict: bool
    """Whether the outputs are right."""
    reason: str | None = None
    """Why not, in one clause."""
    unproved: str | None = None
    """Why equal outputs prove nothing, in one clause; None where they prove something."""
    probes: int = 0
    """Further inputs on which the outputs are right."""
    unjudged: tuple[str, ...] = ()
    """Probes that say nothing of a target of this precision, each with the reason: ``large: beyond the range of …``."""

    @property
    def outcome(self) -> Outcome:
        """How a trial ended that gave these outputs."""
        if not self.verdict:
            return Outcome.MISMATCH
        return Outcome.NOT_PROVED if self.unproved else Outcome.OK

    @property
    def why(self) -> str | None:
        """Why the outcome is not OK."""
        if not self.verdict:
            return f"wrong outputs: {self.reason}"
        return f"not proved, because {self.unproved}" if self.unproved else None

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document; infinities become null."""
        return {key: finite(value) if isinstance(value, float) else value for key, value in asdict(self).items()}


@dataclass(frozen=True)
class Timing:
    """One kind of operator in a profiled run, or typically of several; profiling slows down what it times."""

    name: str
    """In the runtime's own vocabulary."""
    kind: str
    """``operator``, or ``delegated`` inside a delegate that tells; ``delegate``: its calls, without what it told."""
    calls: int
    """Calls per run."""
    ms: float
    """Milliseconds per run of all calls together; 0 below the profiler's resolution."""

    def to_json(self, total_ms: float) -> dict[str, Any]:
        """Return the row of the JSON document.

        Args:
            total_ms: of the whole profile, which the row's share is of.
        """
        return {**asdict(self), "share": self.ms / total_ms if total_ms else 0.0}


@dataclass(frozen=True)
class Agreement:
    """How like a float32 target's its answers are, on many inputs."""

    reference: str
    """That target."""
    inputs: int
    top1: float | None
    """Share of the inputs that both give the same class; None where the first output is not one score a class."""
    top5: float | None
    """Share whose class of float32 is among its first five; None of five classes or fewer."""
    sqnr_db: tuple[float, ...]
    """Of each output, over all inputs; decibels, infinite where nothing differs."""
    worst: int
    """Index of the input that differs most."""
    worst_db: float

    def to_json(self) -> dict[str, Any]:
        """Return the result's ``agreement``; an infinite SQNR is null."""
        return {**asdict(self), "sqnr_db": [finite(db) for db in self.sqnr_db], "worst_db": finite(self.worst_db)}


@dataclass(frozen=True)
class Spent:
    """What one profile says of one part of a model."""

    ms: float
    operators: tuple[str, ...]
    """In the runtime's vocabulary, most expensive first."""


@dataclass(frozen=True)
class Part:
    """One operation of the model with what follows it, or all of one line of Python, on two backends."""

    name: str
    """The module that called it; the line of Python where parts are lines."""
    line: str
    a: Spent
    b: Spent

    @property
    def slower_by(self) -> float:
        """Milliseconds that the second takes longer."""
        return self.b.ms - self.a.ms

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        spent = [{"ms": one.ms, "operators": list(one.operators)} for one in (self.a, self.b)]
        return {"module": self.name, "line": self.line, "backend": spent[0], "against": spent[1]}


@dataclass(frozen=True)
class SideBySide:
    """Two profiles, and what they say of each part of the model; the largest difference first."""

    a: str
    """Target of the first."""
    b: str
    profile_a: tuple[Timing, ...]
    """By kind of operator, most expensive first."""
    profile_b: tuple[Timing, ...]
    modules: tuple[Part, ...] = ()
    lines: tuple[Part, ...] = ()
    """The same by line of Python, which layers of one kind share."""
    reason: str | None = None
    """Why there is no comparison by part."""

    def to_json(self) -> dict[str, Any]:
        """Return the ``against`` of the JSON document."""
        totals = [sum(row.ms for row in rows) for rows in (self.profile_a, self.profile_b)]
        profiles = [
            [row.to_json(total) for row in rows]
            for rows, total in zip((self.profile_a, self.profile_b), totals, strict=True)
        ]
        return {
            "targets": [self.a, self.b],
            "ms": totals,
            "profiles": profiles,
            "parts": [part.to_json() for part in self.modules],
            "lines": [part.to_json() for part in self.lines],
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Simulated:
    """What a simulator counted, and what that would take on its hardware: an estimate, never a measurement."""

    hardware: str
    """Its name."""
    clock_mhz: int
    """Its clock."""
    cycles: int
    """Of that clock, for one run."""
    estimated_ms: float
    """Those cycles at that clock."""
    calls_host: bool
    """Whether the host computes a part, whose time is in neither."""

    def __str__(self) -> str:
        """Return it as reports show it."""
        least = ", without what the host computes" if self.calls_host else ""
        return f"{self.cycles:,} cycles, an estimate of {self.estimated_ms:.3g} ms at {self.clock_mhz:,} MHz{least}"


@dataclass(frozen=True)
class Execution:
    """Where a loaded program's work really ran, as the runtime itself recorded it."""

    device: str
    """What was asked for, as a reader knows it: ``CUDA``, ``OpenVINO GPU``, ``Vulkan (llvmpipe)``."""
    nodes: float | None = None
    """Share of the executed nodes that ran on it, 0 to 1; None where the runtime does not tell."""
    time: float | None = None
    """Share of the nodes' time that was spent on it, 0 to 1; None where the runtime does not tell."""
    elsewhere: tuple[tuple[str, int], ...] = ()
    """(operator and where it ran instead, how many), most first."""
    precision: str | None = None
    """Arithmetic that the runtime says it used: ``fp32``, ``bf16``, …"""
    functional_only: str | None = None
    """Why a duration would say nothing about the device (an emulator, a software driver): right or wrong is all."""
    simulated: Simulated | None = None
    """What the device would take, where a simulator stands in for it that counts cycles."""

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        return {**asdict(self), "share": self.share}

    @property
    def share(self) -> float | None:
        """The share that decides: of the time where it is known, else of the nodes."""
        return self.nodes if self.time is None else self.time


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


@dataclass(frozen=True)
class Result(Further):
    """One trial's end."""

    workload: str
    target: str
    """Full target."""
    title: str
    """How tables call it."""
    outcome: Outcome
    reason: str | None = None
    """Why it is not OK, or what to know although it is."""
    rank: int | None = None
    """1 is the fastest; targets that cannot be told apart share a rank."""
    latency: Measurement | None = None
    latency_ms: Interval | None = None
    """Median, 95 % interval; milliseconds."""
    mean_ms: float | None = None
    """Average of all samples, milliseconds."""
    ratio: Interval | None = None
    """Its latency over that of the panel's leader, the first of :attr:`Panel.ranked`, where both were measured in the
    same rounds: 1.2 takes 20 % longer. It is what decides: told apart from the leader is whose interval leaves out 1.
    Exactly 1 for the leader; None without a rank."""
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


@dataclass(frozen=True)
class Launch:
    """One pass over a panel: every target in a process of its own, visited in interleaved rounds."""

    results: tuple[Result, ...]
    """In the order of the targets; measurements are this pass' alone, and nothing is ranked. Who was not started again,
    because its place was decided, has none."""
    twin: Result | None = None
    """One of them again, in a further process: what differs from it differs by chance."""
    twin_of: int | None = None
    """Its index in ``results``."""
    warnings: tuple[str, ...] = ()
    """What disturbed the whole machine meanwhile, by cause."""
    seconds: float = 0.0
    """Wall time of the pass."""
    program: str = ""
    """Digest of the captured workload; empty where none was captured, and in launches of older versions."""
    proof: Mapping[str, Any] = field(default_factory=dict)
    """What was compared with, and what sample and probes reach: ``Captured.proof``; empty in older versions."""
    lost: str | None = None
    """Why the machine that measured could not be reached any more; None where it could."""


@dataclass(frozen=True)
class PanelKey:
    """Which panel of a study."""

    workload: str
    """Without the batch."""
    batch: int
    threads: int

    def __str__(self) -> str:
        return f"{self.workload}, batch {self.batch}, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclass(frozen=True)
class Panel:
    """What one comparison gave: the results of one workload, measured interleaved on one machine."""

    workload: str
    results: tuple[Result, ...]
    """In the order of the targets."""
    noise_floor: float | None
    """Natural logarithm of the smallest ratio that is believed (0.02 is 2 %); None when it was not measured."""
    settings: Mapping[str, Any]
    """How it was measured: runs, seconds, threads, seed."""
    machine: Machine
    interrupted: bool = False
    """Whether it was stopped early; what was finished is here."""
    batch: int = 1
    """Extent of the batch dimension."""
    launches: int = 1
    """How many times every target was started anew."""
    warnings: tuple[str, ...] = ()
    """What disturbed the whole machine, by cause."""
    proof: Mapping[str, Any] = field(default_factory=dict)
    """What outputs were compared with (``reference``), and what sample and probes reach; see ``Launch.proof``."""
    found_from: float | None = None
    """Relative difference (0.05 is 5 %) from which on two targets of this panel would surely be told apart, in 95 of
    100 such comparisons; smaller ones may be. None where nothing could be compared."""
    place: str = "local"
    """Where it was measured, as the user named it."""
    lost: str | None = None
    """Why that machine could not be reached any more; None where it could."""

    @property
    def ranked(self) -> list[Result]:
        """The results that have a rank, fastest first: within a rank by what they differ from the leader."""

        def place(result: Result) -> tuple[int, float, float]:
            assert result.rank is not None and result.latency_ms is not None
            return result.rank, result.ratio.value if result.ratio else math.inf, result.latency_ms.value

        return sorted((r for r in self.results if r.rank is not None and r.latency_ms is not None), key=place)

    def to_json(self) -> dict[str, Any]:
        """Return what the JSON document says of the panel beside its results."""
        return {
            "workload": self.workload,
            "batch": self.batch,
            "threads": self.settings.get("threads"),
            "noise_floor": self.noise_floor,
            "found_from": None if self.found_from is None else finite(self.found_from),
            "launches": self.launches,
            "interrupted": self.interrupted,
            "place": self.place,
            "lost": self.lost,
            "machine": self.machine.to_json(),
            "warnings": list(self.warnings),
            "proof": dict(self.proof),
            "settings": dict(self.settings),
        }

    def __str__(self) -> str:
        """Return the table that a terminal shows."""
        return str(_report("printed").text(self))

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        return str(_report("notebook").panel_html(self))


@dataclass(frozen=True)
class StudyResults:
    """What a study gave, finished or not."""

    name: str
    panels: tuple[Panel, ...]
    """In the order of the study; those that were not begun are absent."""
    machine: Machine
    versions: Mapping[str, str]
    """Distribution → version, of what took part."""
    settings: Mapping[str, Any]
    """How it was measured."""
    started: str
    """Date and time, ISO 8601 with its offset."""
    finished: bool = True
    """Whether all panels are here."""

    def __str__(self) -> str:
        """Return the tables that a terminal shows."""
        return str(_report("printed").text(self))

    def _repr_html_(self) -> str:
        """Return the tables that a notebook shows."""
        return str(_report("notebook").study_html(self))


def _report(medium: str) -> Any:
    """Return a file of the report. It stands above this one, so it is named only when something is to be shown."""
    return importlib.import_module(f"cross_backend.report.{medium}")


def document(panels: Sequence[Panel], machine: Machine) -> dict[str, Any]:
    """Return the one JSON document of a comparison; its noise floor is the largest of all panels."""
    floors = [panel.noise_floor for panel in panels if panel.noise_floor is not None]
    return {
        "schema": SCHEMA,
        "machine": machine.to_json(),
        "noise_floor": max(floors) if floors else None,
        "settings": dict(panels[0].settings) if panels else {},
        "interrupted": any(panel.interrupted for panel in panels),
        "panels": [panel.to_json() for panel in panels],
        "results": [
            {
                **result.to_json(),
                "batch": panel.batch,
                "threads": panel.settings.get("threads"),
                "place": panel.place,
                "noise_floor": panel.noise_floor,
            }
            for panel in panels
            for result in panel.results
        ],
    }


def finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None
