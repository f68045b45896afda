"""Evidence: what was measured of a bundle's artifacts on one machine, and the order that follows from it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cross_backend.machine import MachineIdentity
from cross_backend.names.platforms import Platform
from cross_backend.remembered import DATE, MachineRanks

MAX_EVIDENCE = 200
"""Rows of evidence that a manifest may hold."""
MAX_MACHINES = 20
"""Machines of one platform that are written."""
MAX_TEXT = 255
"""Characters of a processor's name or a place."""
MAX_COUNT = 1_000_000
"""Highest rank, number of targets or threads."""


@dataclass(frozen=True)
class EvidenceRow:
    """What was measured of one artifact."""

    name: str
    rank: int
    """Among all targets of the comparison, from 1; ties share a rank."""
    ratio: float | None
    """Latency over that of the comparison's fastest target; None where an older version measured."""
    low: float | None
    high: float | None
    """95 % interval of the ratio."""
    median_ms: float


@dataclass(frozen=True)
class Evidence:
    """One comparison on one machine of a platform's class."""

    platform: str
    machine: MachineIdentity
    place: str
    """How the machine was reached: ``local``, ``ssh``, ``adb``. Names of hosts and users are not shipped."""
    date: str
    """When: ISO 8601, UTC, to the second."""
    threads: int
    targets: int
    """How many targets the comparison ranked; some of them may not be in the bundle."""
    order: tuple[str, ...]
    """Names of all artifacts of the platform: those measured there by rank, then the others in the platform's order."""
    rows: tuple[EvidenceRow, ...]
    """Artifacts that were measured there, in this order."""

    def __str__(self) -> str:
        """Return who measured, and when."""
        return f"{self.machine}, {self.date[:10]}"

    def row(self, name: str) -> EvidenceRow | None:
        """Return what was measured of an artifact."""
        return next((row for row in self.rows if row.name == name), None)


def find_evidence(
    platform: Platform,
    order: Sequence[str],
    targets: Mapping[str, str],
    known: Sequence[MachineRanks],
    here: MachineIdentity,
) -> list[Evidence]:
    """Return the evidence of a platform's machines, best first: the first decides the platform's order.

    A machine is of the platform's class if it has its system. Those most like ``here`` come first (same processor,
    same architecture, same system), then the newest. Of machines with the same processor and
    architecture, the newest counts. A comparison of fewer than two of the artifacts orders nothing.

    Args:
        platform: class of devices.
        order: names of its artifacts in its order.
        targets: name → target.
        known: comparisons of the program, newest first.
        here: the machine that makes the bundle.
    """
    found: dict[tuple[str, str], Evidence] = {}
    for one in known:
        place = (one.machine.cpu, one.machine.arch)
        if one.machine.system == platform.system and place not in found and _is_plain(one):
            measured = {name: one.targets[targets[name]] for name in order if targets[name] in one.targets}
            if len(measured) > 1:
                ranked = sorted(measured, key=lambda name: measured[name].rank)  # stable: ties keep the order
                rows = tuple(
                    EvidenceRow(name, row.rank, *_ends(row.ratio), row.median_ms)
                    for name, row in ((name, measured[name]) for name in ranked)
                )
                rest = [name for name in order if name not in measured]
                threads = measured[ranked[0]].threads
                found[place] = Evidence(
                    platform.name,
                    one.machine,
                    one.place.partition(":")[0],
                    one.date,
                    threads,
                    max(len(one.targets), *(row.rank for row in measured.values())),
                    (*ranked, *rest),
                    rows,
                )
    return sorted(found.values(), key=lambda one: -here.likeness(one.machine))[:MAX_MACHINES]


def fitting(evidence: Sequence[Evidence], platform: str, device: MachineIdentity) -> Evidence | None:
    """Return the evidence that orders a platform's artifacts on a device: same processor, else same architecture.

    The architecture alone counts only on the same system.
    """
    of_platform = [one for one in evidence if one.platform == platform]
    best = max(of_platform, key=lambda one: device.likeness(one.machine), default=None)  # the first of equals
    return best if best and device.likeness(best.machine) >= 2 else None


def read_evidence(value: Any, orders: Mapping[str, Sequence[str]]) -> tuple[Evidence, ...]:
    """Read and check a manifest's evidence; none where there is none.

    Args:
        value: the manifest's value, or None.
        orders: platform → names of its artifacts.

    Raises:
        ValueError, KeyError, TypeError: it is none, too long, or names what the platform's order lacks.
    """
    rows = [] if value is None else value
    if not isinstance(rows, list) or len(rows) > MAX_EVIDENCE:
        raise ValueError(f"evidence must be at most {MAX_EVIDENCE} rows")
    return tuple(_read(row, orders) for row in rows)


def _read(row: Mapping[str, Any], orders: Mapping[str, Sequence[str]]) -> Evidence:
    platform, order = _text(row["platform"]), row["order"]
    if platform not in orders:
        raise ValueError(f"there is evidence for {platform!r}, but no order")
    if not isinstance(order, list) or sorted(map(_text, order)) != sorted(orders[platform]):
        raise ValueError(f"the evidence for {platform!r} orders other artifacts than the platform does")
    measured, targets = row["rows"], _count(row["targets"])
    if not isinstance(measured, list) or len(measured) > len(order):
        raise ValueError(f"the evidence for {platform!r} does not have a row for each artifact that was measured")
    rows = tuple(_read_row(one, targets) for one in measured)
    if [one.name for one in rows] != order[: len(rows)]:
        raise ValueError(f"the evidence for {platform!r} does not order what was measured")
    machine = row["machine"]
    if not isinstance(row["date"], str) or not DATE.fullmatch(row["date"]):
        raise ValueError(f"{row['date']!r} is no date")
    if not isinstance(machine["digest"], str) or not re.fullmatch("[0-9a-f]{16}", machine["digest"]):
        raise ValueError(f"{machine['digest']!r} is no machine's digest")
    return Evidence(
        platform,
        MachineIdentity(*(_text(machine[key]) for key in ("cpu", "arch", "system", "digest"))),
        _text(row["place"]),
        row["date"],
        _count(row["threads"]),
        targets,
        tuple(order),
        rows,
    )


def _read_row(row: Mapping[str, Any], targets: int) -> EvidenceRow:
    ends = [row[key] for key in ("ratio", "low", "high")]
    ratio, low, high = (None, None, None) if ends == [None] * 3 else map(_figure, ends)
    rank = _count(row["rank"])
    if rank > targets:
        raise ValueError(f"{rank} is no rank among {targets}")
    return EvidenceRow(_text(row["name"]), rank, ratio, low, high, _figure(row["median_ms"]))


def _text(value: Any) -> str:
    """Accept a short text that a message can show."""
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value) <= MAX_TEXT:
        raise ValueError("evidence holds a text that is empty, too long or not printable")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_COUNT:
        raise ValueError(f"evidence holds {str(value)[:20]!r} in place of a count")
    return value


def _figure(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"evidence holds {str(value)[:20]!r} in place of a figure")
    return float(value)


def _is_plain(one: MachineRanks) -> bool:
    """Whether a reader accepts the texts of a comparison."""
    texts = (one.machine.cpu, one.machine.arch, one.machine.system, one.place)
    return all(text.isprintable() and 0 < len(text) <= MAX_TEXT for text in texts)


def _ends(ratio: Any) -> tuple[float | None, float | None, float | None]:
    return (ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)
