"""Bounds: what a winner may cost, and by how much a candidate misses them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cross_backend.report import figures, tables


@dataclass(frozen=True)
class Bounds:
    """What a winner may cost; None where there is no bound."""

    max_drop: float = 0.01
    """Largest loss of accuracy, as a share: 0.005 is half a point of a task's metric, or a perplexity half a per cent
    higher."""
    max_ms: float | None = None
    """Longest median latency of a call, milliseconds."""
    max_size: int | None = None
    """Largest file, bytes."""
    max_memory: int | None = None
    """Largest peak memory of the process, bytes."""


@dataclass(frozen=True)
class Miss:
    """One bound that a candidate does not meet."""

    bound: str
    """Option that set it."""
    found: float | None
    """What the candidate has; None where that is unknown."""
    limit: float
    reason: str | None = None
    """Why it is unknown."""

    @property
    def excess(self) -> float:
        """How many times the limit it has; infinite where that is unknown, or where the limit is 0."""
        return math.inf if self.found is None or self.limit <= 0 else self.found / self.limit

    def __str__(self) -> str:
        """Return it as a clause: ``12.3 MB (--max-size 10.0 MB)``."""
        limit = f"({self.bound} {_spoken(self.bound, self.limit)})"
        if self.found is None:
            return f"unknown, because {self.reason} {limit}"
        return f"{_spoken(self.bound, self.found)} {limit}"


def _spoken(bound: str, value: float) -> str:
    if bound == "--max-ms":
        return figures.duration(value)
    if bound == "--max-drop":
        return points(value)
    return tables.size(round(value))


def points(drop: float) -> str:
    """Return a drop in per cent, with two significant digits at least."""
    return f"{drop * 100:.3g} %"
