"""What was found of one target: how it ended, how its outputs differ, how like float32 its answers are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from cross_backend.records.numbers import finite


class Outcome(StrEnum):
    """How a target ended.

    Example:
        >>> xb.Outcome("MISMATCH") is xb.Outcome.MISMATCH
        True
    """

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
