"""There: what is asked of a worker about the machine that it runs on."""

from __future__ import annotations

from dataclasses import dataclass

from cross_backend.machine import Machine, version_of
from cross_backend.measure.disturbance import Snapshot
from cross_backend.registry import missing_here, resolve
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
        gap = missing_here(resolved.backend).run
        versions = {name: version_of(name) for name in resolved.backend.distributions}
        return Lacking(gap.reason if gap else None, gap.remedy if gap else "", resolved.python, versions)
