"""Placement: what a finished payload does where, read back from the payload: the certificate in its manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cross_backend.serialization import from_json, to_json


@dataclass(frozen=True)
class Operators:
    """One kind of operator in a finished payload."""

    name: str
    """Name in the payload's own vocabulary."""
    count: int
    """How many nodes."""
    why: str | None = None
    """For operators that were left: the reason, the vendor's own where it gave one."""
    flops: int | None = None
    """For operators that were left: floating point operations of all of them, a multiply-add being two."""
    lines: tuple[str, ...] = ()
    """For operators that were left: the lines of the user's Python that made them."""


@dataclass(frozen=True)
class Placement:
    """What a finished payload really does where; read back from the payload, never from what was asked."""

    delegates: Mapping[str, int] = field(default_factory=dict)
    """Delegate id → number of delegated subgraphs; empty for runtimes without delegates."""
    inside: tuple[Operators, ...] = ()
    """Operators that the backend itself executes, most frequent first."""
    left: tuple[Operators, ...] = ()
    """Operators that it left to somebody else's kernels, most expensive first."""
    flop_coverage: float | None = None
    """Share of the program's floating point operations that the backend executes; None where they are not counted."""
    planned_bytes: int | None = None
    """Memory that the runtime plans for activations outside delegates; None where the file does not tell."""
    constant_bytes: int | None = None
    """Constants outside delegates."""
    delegate_bytes: int | None = None
    """Size of all delegates' blobs and of the weights that they name."""
    without_kernel: tuple[str, ...] = ()
    """Operators for which no runtime has a kernel, so that the file runs nowhere."""

    @property
    def inside_count(self) -> int:
        """Nodes that the backend executes."""
        return sum(row.count for row in self.inside)

    @property
    def left_count(self) -> int:
        """Nodes that it left."""
        return sum(row.count for row in self.left)

    @property
    def coverage(self) -> float:
        """Share of nodes that the backend executes, 0 to 1."""
        total = self.inside_count + self.left_count
        return self.inside_count / total if total else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the manifest's ``placement``."""
        nodes = ("delegates", "inside", "left")
        row = to_json(self)
        if not self.without_kernel:
            del row["without_kernel"]
        return {**{key: row.pop(key) for key in nodes}, "coverage": self.coverage, **row}

    def weighed(self, flops: int | None) -> Placement:
        """Return the same placement with the share of ``flops``, all of the program's, that is inside."""
        if not flops or any(row.flops is None for row in self.left):
            return self
        return dataclasses.replace(self, flop_coverage=max(0.0, 1 - sum(row.flops or 0 for row in self.left) / flops))

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Placement:
        """Read the manifest's ``placement``; only what versions of the manifest added may be absent.

        Raises:
            ValueError, ...: it is none, or a number in it is none that can be counted to.
        """
        _ = row["delegates"], *([one["why"] for one in row[key]] for key in ("inside", "left"))  # KeyError
        made = from_json(cls, row)
        counted = [made.planned_bytes, made.constant_bytes, made.delegate_bytes, *made.delegates.values()]
        counted += [number for one in (*made.inside, *made.left) for number in (one.count, one.flops)]
        if not all(number is None or 0 <= number < 1 << 63 for number in counted):
            raise ValueError("a count of its placement is negative or too large")
        return made


def count_operators(names: Mapping[str, int], why: Mapping[str, str] | None = None) -> tuple[Operators, ...]:
    """Order operator counts for a placement: most frequent first, then by name."""
    ordered = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Operators(name, count, (why or {}).get(name)) for name, count in ordered)


def group_left(calls: Iterable[Operators]) -> tuple[Operators, ...]:
    """Group single calls that were left by operator and reason: most expensive first, then most frequent."""
    groups: dict[tuple[str, str | None], Operators] = {}
    for call in calls:
        seen = groups.get((call.name, call.why), Operators(call.name, 0, call.why, 0))
        lines = tuple(dict.fromkeys((*seen.lines, *call.lines)))
        flops = (seen.flops or 0) + (call.flops or 0)
        groups[call.name, call.why] = Operators(call.name, seen.count + call.count, call.why, flops, lines)
    return tuple(sorted(groups.values(), key=lambda row: (-(row.flops or 0), -row.count, row.name)))
