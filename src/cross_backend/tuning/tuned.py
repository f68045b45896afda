"""Tuned: what a search found: every candidate with what it costs, the unbeaten ones, the winner or the nearest."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cross_backend.machine import Machine
from cross_backend.measurement import Interval
from cross_backend.names.target import Target
from cross_backend.names.task_metrics import SMALLER_IS_BETTER, drop
from cross_backend.records import Outcome, finite
from cross_backend.registry import rows
from cross_backend.tuning.bounds import Bounds, Miss

SAME_MEMORY = 1.02
"""Peak memories of two processes of one program differ by as much."""


@dataclass(frozen=True)
class Loss:
    """How a drop of accuracy is measured."""

    name: str
    """``top-1 accuracy``, ``perplexity``, ``top-1 agreement with fp32``, ``relative error``."""
    about: str
    """What it is of, in a clause."""
    reference: float
    """What float32 has."""
    is_error: bool = False
    """Whether it is an error itself, whose drop is all of it."""

    @property
    def smaller_is_better(self) -> bool:
        """Whether less is better."""
        return self.is_error or self.name in SMALLER_IS_BETTER

    def drop(self, value: float) -> float:
        """Return how much worse than float32 a value is, as a share; nothing where it is better.

        Of a task's metric of which smaller is better, the perplexity, it is the relative increase.
        """
        return max(0.0, value - self.reference if self.is_error else drop(self.name, value, self.reference))


@dataclass(frozen=True)
class Tried:
    """One candidate."""

    target: str
    title: str
    batch: int
    outcome: Outcome
    reason: str | None = None
    """Why it is not OK, or was not measured."""
    latency_ms: Interval | None = None
    """Median of a call, 95 % interval; milliseconds."""
    ratio: Interval | None = None
    """Its latency an item over the winner's."""
    accuracy: float | None = None
    """By :class:`Loss`."""
    drop: float | None = None
    """How much worse than float32, as a share."""
    size_bytes: int | None = None
    memory_bytes: int | None = None
    """Peak of its process."""
    launches: int = 0
    """How often it was started and timed."""
    calls: int = 0
    """Timed calls."""
    misses: tuple[Miss, ...] = ()
    """Bounds that it does not meet."""
    tied: bool = False
    """Whether it cannot be distinguished from the winner."""
    unbeaten: bool = False
    """Whether no other candidate within the bounds is as good in everything and better in something."""

    @property
    def per_item_ms(self) -> float | None:
        """Median of a call divided by its batch size."""
        return self.latency_ms.value / self.batch if self.latency_ms else None

    @property
    def fits(self) -> bool:
        """Whether it was measured and is within all bounds."""
        return self.outcome is Outcome.OK and self.latency_ms is not None and not self.misses

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        return {
            "target": self.target,
            "batch": self.batch,
            "outcome": str(self.outcome),
            "reason": self.reason,
            "latency_ms": _ends(self.latency_ms, "median"),
            "per_item_ms": self.per_item_ms,
            "ratio": _ends(self.ratio),
            "accuracy": self.accuracy,
            "drop": self.drop,
            "size_bytes": self.size_bytes,
            "memory_bytes": self.memory_bytes,
            "launches": self.launches,
            "calls": self.calls,
            "misses": [{"bound": one.bound, "found": one.found, "limit": one.limit} for one in self.misses],
            "tied": self.tied,
            "unbeaten": self.unbeaten,
        }


def _ends(interval: Interval | None, value: str = "value") -> dict[str, float | None] | None:
    if interval is None:
        return None
    return {value: finite(interval.value), "low": finite(interval.low), "high": finite(interval.high)}


@dataclass(frozen=True)
class Tuned:
    """What a search found on one machine."""

    workload: str
    place: str
    machine: Machine
    bounds: Bounds
    loss: Loss
    tried: tuple[Tried, ...]
    winner: Tried | None
    """The fastest within the bounds; None where nothing meets them."""
    nearest: Tried | None
    """Where nothing meets them: who misses them by least."""
    command: str | None
    """Exports the winner."""
    study: int
    """Number of what is stored."""
    whole_launches: int
    """Starts that measuring every candidate in full would take."""
    whole_calls: int
    """Timed calls that it would take."""

    @property
    def launches(self) -> int:
        """Starts that were timed."""
        return sum(one.launches for one in self.tried)

    @property
    def calls(self) -> int:
        """Timed calls."""
        return sum(one.calls for one in self.tried)

    @property
    def share(self) -> float:
        """Timed calls over those that measuring every candidate in full takes, 0 to 1; a call is a measurement."""
        return self.calls / self.whole_calls if self.whole_calls else 0.0

    @property
    def unbeaten(self) -> list[Tried]:
        """The candidates that no other beats, fastest first."""
        return sorted((one for one in self.tried if one.unbeaten), key=lambda one: one.per_item_ms or math.inf)

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        return {
            "workload": self.workload,
            "place": self.place,
            "machine": self.machine.to_json(),
            "bounds": asdict(self.bounds),
            "accuracy": {
                "name": self.loss.name,
                "about": self.loss.about,
                "reference": self.loss.reference,
                "smaller_is_better": self.loss.smaller_is_better,
            },
            "candidates": [one.to_json() for one in self.tried],
            "winner": self.winner.to_json() if self.winner else None,
            "nearest": self.nearest.to_json() if self.nearest else None,
            "command": self.command,
            "study": self.study,
            "launches": self.launches,
            "calls": self.calls,
            "whole_launches": self.whole_launches,
            "whole_calls": self.whole_calls,
            "share": self.share,
        }


def unbeaten(tried: Sequence[Tried], is_slower: Callable[[int, int], bool]) -> set[int]:
    """Return the indices of candidates within the bounds that no other dominates.

    Args:
        tried: all.
        is_slower: whether the first of two indices is shown to be slower an item than the second.
    """

    def dominates(one: int, other: int) -> bool:
        mine, theirs = tried[one], tried[other]
        memory = [row.memory_bytes or math.inf for row in (mine, theirs)]
        costs = [(mine.drop or 0.0, theirs.drop or 0.0), (mine.size_bytes or 0, theirs.size_bytes or 0)]
        if is_slower(one, other) or memory[0] > memory[1] * SAME_MEMORY or any(a > b for a, b in costs):
            return False
        return is_slower(other, one) or memory[0] * SAME_MEMORY < memory[1] or any(a < b for a, b in costs)

    fit = [index for index, row in enumerate(tried) if row.fits]
    return {index for index in fit if not any(dominates(other, index) for other in fit if other != index)}


def nearest(tried: Sequence[Tried]) -> Tried | None:
    """Return who misses the bounds by least: by the largest excess, then by how many; None where nobody came so far."""
    missing = [one for one in tried if one.misses and one.outcome in {Outcome.OK, Outcome.NOT_MEASURED}]

    def distance(one: Tried) -> tuple[float, int, float]:
        return max(miss.excess for miss in one.misses), len(one.misses), sum(miss.found or 0.0 for miss in one.misses)

    return min(missing, key=distance, default=None)


def short_target(text: str) -> str:
    """Return a full target by its backend's short name."""
    target = Target.parse(text)
    row = rows().get(target.name)
    return str(Target(row.aliases[0], target.options)) if row and row.aliases else text


def export_command(
    model: str,
    target: str,
    *,
    batch: int | None = None,
    weights: str | None = None,
    inputs: Sequence[Path] = (),
    calibration: Path | None = None,
) -> str:
    """Return the command line that exports a target of a model."""
    options: Mapping[str, Sequence[str]] = {
        "--weights": [weights] if weights else [],
        "--inputs": [str(path) for path in inputs],
        "--calibration": [str(calibration)] if calibration else [],
        "--batch": [str(batch)] if batch else [],
        "--backends": [short_target(target)],
    }
    words = ["cross-backend", "export", model]
    return shlex.join([*words, *(word for name, given in options.items() if given for word in (name, *given))])
