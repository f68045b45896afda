"""Remembered: what this machine learned about artifacts: verdicts of first loads, and latencies measured together."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from cross_backend.artifact import DAMAGE
from cross_backend.cache import Cache, key_of
from cross_backend.machine import Machine
from cross_backend.serialization import from_json


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

    def measured(self, program: str) -> dict[str, Measured]:
        """Return target → what the last comparison of a program (its digest) on this machine measured."""
        with contextlib.suppress(*DAMAGE):
            return from_json(dict[str, Measured], json.loads(self._path("measured", program=program).read_bytes()))
        return {}

    def keep_measured(self, program: str, found: Mapping[str, Measured]) -> None:
        """Remember a comparison; it replaces the one before."""
        self._write(self._path("measured", program=program), {target: asdict(row) for target, row in found.items()})

    def _verdict_path(self, artifact: str, versions: Mapping[str, str]) -> Path:
        return self._path("verdicts", artifact=artifact, versions=dict(versions))

    def _path(self, kind: str, **about: object) -> Path:
        return (
            self._cache.root / kind / f"{key_of({'machine': (self._machine or Machine.here()).digest, **about})}.json"
        )

    def _write(self, path: Path, row: Mapping[str, Any]) -> None:
        """Write whole or not at all; a cache that cannot be written only means that nothing is remembered."""
        with contextlib.suppress(OSError), self._cache.scratch() as scratch:
            (scratch / path.name).write_text(json.dumps(row))
            path.parent.mkdir(parents=True, exist_ok=True)
            (scratch / path.name).replace(path)
