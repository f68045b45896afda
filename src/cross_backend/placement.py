"""Placement: what a finished payload does where, read back from the payload: the certificate in its manifest."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
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
class Arithmetic:
    """In what the operators of a payload of lower precision compute, read back from it."""

    low: tuple[Operators, ...]
    """Operators that compute in that precision, most frequent first."""
    kept: tuple[Operators, ...]
    """Operators that compute in float."""
    conversions: int
    """Operators that only quantise, dequantise or cast between the two."""

    def __str__(self) -> str:
        low, kept = (sum(row.count for row in rows) for rows in (self.low, self.kept))
        stay = f", {kept} stay in float" if kept else ""
        return f"{low} operators{stay}, {self.conversions} conversions"


@dataclass(frozen=True)
class Placement:
    """Which operators the backend executes and which it does not, read back from the finished payload.

    Example:
        >>> artifact.placement.coverage
        1.0
        >>> artifact.placement.inside[0].name
        'aten.linear.default'
    """

    delegates: Mapping[str, int] = field(default_factory=dict)
    """Delegate id → number of delegated subgraphs; empty for runtimes without delegates."""
    inside: tuple[Operators, ...] = ()
    """Operators that the backend itself executes, most frequent first."""
    left: tuple[Operators, ...] = ()
    """Operators that it left to somebody else's kernels, most expensive first."""
    flop_coverage: float | None = None
    """Share of the program's floating point operations that the backend executes; None where they are not counted."""
    planned_bytes: int | None = None
    """Memory that the runtime plans for activations outside delegates; None where the file does not say."""
    constant_bytes: int | None = None
    """Constants outside delegates."""
    delegate_bytes: int | None = None
    """Size of all delegates' blobs and of the weights that they name."""
    without_kernel: tuple[str, ...] = ()
    """Operators for which no runtime has a kernel, so that the file runs nowhere."""
    arithmetic: Arithmetic | None = None
    """What computes in the precision that was asked for; None for float32, and where the file does not say."""

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
        for key in ("without_kernel", "arithmetic"):
            if not row[key]:
                del row[key]
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
        if made.arithmetic is not None:
            computing = (*made.arithmetic.low, *made.arithmetic.kept)
            counted += [made.arithmetic.conversions, *(one.count for one in computing)]
        counted += [number for one in (*made.inside, *made.left) for number in (one.count, one.flops)]
        if not all(number is None or 0 <= number < 1 << 63 for number in counted):
            raise ValueError("a count of its placement is negative or too large")
        return made


def count_operators(names: Mapping[str, int]) -> tuple[Operators, ...]:
    """Order operator counts for a placement: most frequent first, then by name."""
    ordered = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    return tuple(Operators(name, count) for name, count in ordered)


_MOVES = frozenset(
    (
        *(
            "assert_tensor_metadata",
            "cast",
            "clone_dim_order",
            "concat",
            "concatenate",
            "constant",
            "copy",
            "expand",
            "flatten",
        ),
        *("gather", "identity", "nop", "pad", "permute", "reorder", "reorderinput", "reorderoutput"),
        *("reshape", "shape", "shapeof", "slice", "split", "squeeze", "staticreshape", "staticslice"),
        *("statictranspose", "stridedslice", "to_dim_order_copy", "t", "transpose", "unsqueeze", "view"),
    )
)
"""Operators that move numbers and compute none, by their names in small letters, digits at the end left out."""


def split_arithmetic(
    names: Mapping[str, int], *, is_low: Callable[[str], bool], is_conversion: Callable[[str], bool]
) -> Arithmetic:
    """Tell operators apart by their names in the payload's vocabulary; those that only move numbers are in none.

    Args:
        names: operator → how many.
        is_low: whether it computes in the lower precision.
        is_conversion: whether it only quantises or dequantises; asked first.
    """
    conversions = sum(count for name, count in names.items() if is_conversion(name))
    rest = {name: count for name, count in names.items() if not is_conversion(name)}
    low = {name: count for name, count in rest.items() if is_low(name)}
    return Arithmetic(computing(low), computing({name: n for name, n in rest.items() if name not in low}), conversions)


def computing(names: Mapping[str, int]) -> tuple[Operators, ...]:
    """Return operators by their counts, but for those that only move numbers."""
    return count_operators(
        {name: n for name, n in names.items() if name.lower().rstrip("0123456789").strip("_") not in _MOVES}
    )


def join_arithmetic(parts: Iterable[Arithmetic]) -> Arithmetic:
    """Add up what several parts of a payload compute in."""
    low: Counter[str] = Counter()
    kept: Counter[str] = Counter()
    conversions = 0
    for part in parts:
        low.update({row.name: row.count for row in part.low})
        kept.update({row.name: row.count for row in part.kept})
        conversions += part.conversions
    return Arithmetic(count_operators(low), count_operators(kept), conversions)


def group_left(calls: Iterable[Operators]) -> tuple[Operators, ...]:
    """Group single calls that were left by operator and reason: most expensive first, then most frequent."""
    groups: dict[tuple[str, str | None], Operators] = {}
    for call in calls:
        seen = groups.get((call.name, call.why), Operators(call.name, 0, call.why, 0))
        lines = tuple(dict.fromkeys((*seen.lines, *call.lines)))
        flops = (seen.flops or 0) + (call.flops or 0)
        groups[call.name, call.why] = Operators(call.name, seen.count + call.count, call.why, flops, lines)
    return tuple(sorted(groups.values(), key=lambda row: (-(row.flops or 0), -row.count, row.name)))
