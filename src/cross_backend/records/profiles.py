"""Profiles of a program that ran: time by operator, where it ran, what a simulator counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Timing:
    """One kind of operator in a profiled run, or typically of several; profiling slows down what it times."""

    name: str
    """In the runtime's own vocabulary."""
    kind: str
    """``operator``, or ``delegated`` inside a delegate that reports it; ``delegate``: the rest of its call."""
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
    """Share of the executed nodes that ran on it, 0 to 1; None where the runtime does not say."""
    time: float | None = None
    """Share of the nodes' time that was spent on it, 0 to 1; None where the runtime does not say."""
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
