"""There: what is asked of a worker about the machine that it runs on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError, one_line
from cross_backend.machine import Machine, version_of
from cross_backend.measure.disturbance import Snapshot
from cross_backend.registry import find_backend, lifecycle_here, missing_here, resolve, rows
from cross_backend.trust import keep
from cross_backend.worker.child import SCRATCH_VARIABLE
from cross_backend.worker.question import Answering, Question


@dataclass(frozen=True)
class Lacking:
    """What keeps a target from running, and the versions of its packages."""

    reason: str | None
    remedy: str
    python: str
    """Interpreter that runs it."""
    versions: dict[str, str | None]


@dataclass(frozen=True)
class AskMachine(Question[Machine]):
    """What machine it is."""

    def answer(self, _process: Answering) -> Machine:
        """Return its identity."""
        return Machine.here()


@dataclass(frozen=True)
class AskSnapshot(Question[Snapshot]):
    """What it does now."""

    scratch: str
    """Folder that the environment of every process of ours names."""

    def answer(self, _process: Answering) -> Snapshot:
        """Return its counters."""
        return Snapshot.take((SCRATCH_VARIABLE, self.scratch))


@dataclass(frozen=True)
class AskLacking(Question[Lacking]):
    """Whether a target can run there."""

    target: str

    def answer(self, _process: Answering) -> Lacking:
        """Return why not, if not."""
        resolved = resolve(self.target)
        why = missing_here(resolved.backend).run
        versions = {name: version_of(name) for name in resolved.backend.distributions}
        return Lacking(why.reason if why else None, why.remedy if why else "", resolved.python, versions)


def entry_of(name: str) -> dict[str, Any]:
    """Return what a machine can do with a backend: its row of ``cross-backend backends --json``."""
    entry = {"name": name, "aliases": list(rows()[name].aliases)}
    try:
        backend = find_backend(name)
    except CrossBackendError as error:
        unavailable = {"reason": one_line(error), "remedy": ""}
        return {**entry, "title": name, "lifecycle": "broken", "options": {}, "lower": unavailable, "run": unavailable}
    return {
        **entry,
        "title": backend.title,
        "lifecycle": lifecycle_here(backend),
        "options": {key: list(option.choices) or "number" for key, option in backend.options.items()},
        **asdict(missing_here(backend)),
    }


@dataclass(frozen=True)
class AskBackends(Question[list[dict[str, Any]]]):
    """What can be lowered and run there."""

    names: tuple[str, ...]

    def answer(self, _process: Answering) -> list[dict[str, Any]]:
        """Return a row for each backend."""
        return [entry_of(name) for name in self.names]


@dataclass(frozen=True)
class AskVersions(Question[dict[str, str | None]]):
    """Which versions of packages are installed there."""

    names: tuple[str, ...]

    def answer(self, _process: Answering) -> dict[str, str | None]:
        """Return package → version."""
        return {name: version_of(name) for name in self.names}


@dataclass(frozen=True)
class Trust(Question[None]):
    """Trust a payload there that is trusted here."""

    payload: Path

    def answer(self, _process: Answering) -> None:
        """Remember its digest."""
        keep(Cache(), self.payload)
