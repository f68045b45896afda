"""Remembered: verdicts of first loads on this machine, and latencies that were measured together on any machine."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from cross_backend.artifact import DAMAGE
from cross_backend.cache import Cache, key_of
from cross_backend.errors import ArtifactError
from cross_backend.foreign_files import read_regular
from cross_backend.machine import Machine, MachineIdentity
from cross_backend.measurement import Interval
from cross_backend.serialization import from_json

DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
"""ISO 8601, UTC, to the second."""


class Verdict(StrEnum):
    """How the first load of an artifact on this machine ended."""

    RIGHT = "right"
    """It opened, and its outputs were right."""
    WRONG = "wrong"
    """It opened, and its outputs were not right."""
    FAILED = "failed"
    """The runtime refused it."""
    CRASHED = "crashed"
    """Its process died, or gave no answer in time."""


@dataclass(frozen=True)
class Remembered:
    """One verdict."""

    verdict: Verdict
    reason: str = ""
    """Why it is not right."""


@dataclass(frozen=True)
class Measured:
    """What a target's latency was, beside the others of one comparison."""

    rank: int
    """1 is the fastest; ties share a rank."""
    median_ms: float
    low_ms: float
    high_ms: float
    """95 % interval of the median."""
    threads: int
    machine: str
    """Digest of the machine that measured."""
    cpu: str
    ratio: Interval | None = None
    """Latency over that of the fastest, with its 95 % interval; None where an older version measured."""


@dataclass(frozen=True)
class MachineRanks:
    """One comparison of a program: what it measured on one machine, where and when."""

    program: str
    """Digest of the program."""
    machine: MachineIdentity
    place: str
    """Where it was measured, as the user named it."""
    date: str
    """When, as :data:`DATE`."""
    targets: Mapping[str, Measured] = field(default_factory=dict)


class Memory:
    """Small JSON files in the cache, one per key; a damaged one is forgotten."""

    def __init__(self, cache: Cache, machine: Machine | None = None) -> None:
        """Read and write what is known of a machine, of this one where None."""
        self._cache, self._machine = cache, machine

    def verdict(self, artifact: str, versions: Mapping[str, str]) -> Remembered | None:
        """Return what is known of an artifact (its digests) under a runtime (distribution → version), here."""
        with contextlib.suppress(*DAMAGE):
            row = json.loads(self._verdict_path(artifact, versions).read_bytes())
            return Remembered(Verdict(row["verdict"]), str(row["reason"]))
        return None

    def keep_verdict(self, artifact: str, versions: Mapping[str, str], found: Remembered) -> None:
        """Remember a verdict."""
        self._write(self._verdict_path(artifact, versions), asdict(found))

    def measured(self, program: str) -> Mapping[str, Measured]:
        """Return target → what the last comparison of a program (its digest) on this machine measured."""
        found = self.ranks(program)
        return found.targets if found else {}

    def ranks(self, program: str) -> MachineRanks | None:
        """Return the last comparison of a program on this machine."""
        return self._read_ranks(self._path("measured", program=program), program)

    def everywhere(self, program: str) -> list[MachineRanks]:
        """Return the last comparison of a program on every machine, newest first."""
        own = self._path("measured", program=program)
        files = {own, *self._cache.root.glob("measured/*.json")}
        found = [self._read_ranks(path, program if path == own else None) for path in files]
        kept = [one for one in found if one is not None and one.program == program]
        return sorted(sorted(kept, key=lambda one: one.machine.digest), key=lambda one: one.date, reverse=True)

    def keep_measured(
        self, program: str, found: Mapping[str, Measured], place: str = "local", date: str | None = None
    ) -> None:
        """Remember a comparison; it replaces the one before on the same machine.

        Args:
            program: digest of the program.
            found: target → what was measured.
            place: where it was measured, as the user named it.
            date: when, as :data:`DATE`; now where None.
        """
        date = date or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._write(
            self._path("measured", program=program),
            asdict(MachineRanks(program, self._here.identity, place, date, dict(found))),
        )

    def _read_ranks(self, path: Path, program: str | None) -> MachineRanks | None:
        """Read a comparison; a damaged one is None.

        Args:
            path: its file.
            program: the program that the file is of, where its name says so. Files of older versions, which hold
                neither program nor machine, are read only then, and are of this machine.
        """
        with contextlib.suppress(*DAMAGE, ArtifactError):
            row = json.loads(read_regular(path))
            if "targets" in row and "program" in row:
                found = from_json(MachineRanks, row)
            elif program is not None:
                written = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
                targets = from_json(dict[str, Measured], row)
                found = MachineRanks(program, self._here.identity, "local", written, targets)
            else:
                return None
            return found if _is_sound(found) else None
        return None

    def _verdict_path(self, artifact: str, versions: Mapping[str, str]) -> Path:
        return self._path("verdicts", artifact=artifact, versions=dict(versions))

    def _path(self, kind: str, **about: object) -> Path:
        return self._cache.root / kind / f"{key_of({'machine': self._here.digest, **about})}.json"

    @property
    def _here(self) -> Machine:
        return self._machine or Machine.here()

    def _write(self, path: Path, row: Mapping[str, Any]) -> None:
        """Write whole or not at all; a cache that cannot be written only means that nothing is remembered."""
        with contextlib.suppress(OSError), self._cache.scratch() as scratch:
            (scratch / path.name).write_text(json.dumps(row))
            path.parent.mkdir(parents=True, exist_ok=True)
            (scratch / path.name).replace(path)


def _is_sound(found: MachineRanks) -> bool:
    """Whether ranks and figures are what a comparison can measure."""
    rows = found.targets.values()
    figures = [
        figure
        for row in rows
        for figure in (row.median_ms, row.low_ms, row.high_ms, *(asdict(row.ratio).values() if row.ratio else ()))
    ]
    return (
        DATE.fullmatch(found.date) is not None
        and all(row.rank >= 1 for row in rows)
        and all(math.isfinite(figure) and figure >= 0 for figure in figures)
    )
