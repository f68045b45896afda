"""Site: the machine on which a panel is measured: this one, or one at a place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from cross_backend.bench.bench import Bench
from cross_backend.bench.far_bench import FarBench
from cross_backend.bench.runner_bench import RunnerBench
from cross_backend.bench.there import AskBackends, AskLacking, AskMachine, AskSnapshot, AskVersions, Lacking, entry_of
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import PlaceError, UnavailableError, WorkerError
from cross_backend.machine import Machine, version_of
from cross_backend.measure.disturbance import Snapshot
from cross_backend.places.condition import Condition
from cross_backend.places.place import Place
from cross_backend.registry import Resolved, check_runs, missing_here, resolve
from cross_backend.worker.process import Elsewhere, Worker
from cross_backend.worker.question import Answer, Question


class Site(ABC):
    """Where benches stand."""

    name = "local"

    @property
    @abstractmethod
    def machine(self) -> Machine:
        """Its identity."""

    @abstractmethod
    def snapshot(self) -> Snapshot | None:
        """Return what the machine does now; None where it does not say."""

    def condition(self) -> Condition | None:
        """Return the state on which speed depends there; None where the site reports none."""
        return None

    @abstractmethod
    def missing(self, resolved: Resolved) -> str | None:
        """Return what keeps a target from running there, with the remedy."""

    def version_difference(self, resolved: Resolved, lowered_with: Mapping[str, str]) -> str | None:  # noqa: ARG002
        """Return which packages have another version there than what lowered an artifact; None where none has."""
        return None

    @abstractmethod
    def backends(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return what it can do with each backend: rows of ``cross-backend backends --json``."""

    @abstractmethod
    def versions(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return package → installed version."""

    def checks(self) -> list[tuple[str, bool, str]]:
        """Return what is examined of the way there: (what, whether it is well, what was found)."""
        return []

    def check_runs(self, resolved: Resolved) -> Resolved:
        """Return a target that can run there.

        Raises:
            UnavailableError: it cannot; the text has the remedy.
        """
        why = self.missing(resolved)
        if why is not None:
            raise UnavailableError(f"{resolved.backend.name} {why}")
        return resolved

    @abstractmethod
    def start_bench(self, target: str, settings: Settings, cache: Cache, stack: ExitStack) -> Bench:
        """Start a bench for a target; the stack closes it.

        Raises:
            WorkerError, PlaceError: it cannot be started.
        """


class Here(Site):
    """This machine."""

    @property
    def machine(self) -> Machine:  # noqa: D102  the declaration says it
        return Machine.here()

    def snapshot(self) -> Snapshot:  # noqa: D102
        return Snapshot.take()

    def missing(self, resolved: Resolved) -> str | None:  # noqa: D102
        unavailable = missing_here(resolved.backend).run
        return str(unavailable) if unavailable else None

    def check_runs(self, resolved: Resolved) -> Resolved:  # noqa: D102
        return check_runs(resolved)

    def backends(self, names: Sequence[str]) -> list[dict[str, Any]]:  # noqa: D102
        return [entry_of(name) for name in names]

    def versions(self, names: Sequence[str]) -> dict[str, str | None]:  # noqa: D102
        return {name: version_of(name) for name in names}

    def start_bench(self, target: str, settings: Settings, cache: Cache, stack: ExitStack) -> Bench:  # noqa: D102
        python, limit = resolve(target).python, settings.memory_limit_bytes
        worker = Worker(cache.log("run"), python, [WorkerBench.__module__], memory_limit_bytes=limit)
        stack.callback(cache.sweep, worker.pid)
        return stack.enter_context(WorkerBench(worker, settings.timeout_s))


HERE = Here()


@dataclass
class WithPython(Site):
    """A machine at a place that has Python; one worker there answers for the machine."""

    place: Place
    elsewhere: Elsewhere
    python: str
    observer: Worker
    _lacking: dict[str, Lacking] = field(default_factory=dict)
    _machine: Machine | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The place's."""
        return self.place.name

    @property
    def machine(self) -> Machine:  # noqa: D102
        if self._machine is None:
            self._machine = self._ask(AskMachine())
        return self._machine

    def snapshot(self) -> Snapshot:  # noqa: D102
        return self._ask(AskSnapshot(self.place.scratch))

    def missing(self, resolved: Resolved) -> str | None:  # noqa: D102
        found = self._lacking_of(str(resolved.target))
        if found.reason is None:
            return None
        absent = [name for name, version in found.versions.items() if version is None]
        wanted = [f"{name}=={version_of(name)}" if version_of(name) else name for name in absent]
        return f"{found.reason} on {self.name}" + (f"; install there: {' '.join(wanted)}" if wanted else "")

    def version_difference(self, resolved: Resolved, lowered_with: Mapping[str, str]) -> str | None:  # noqa: D102
        there = self._lacking_of(str(resolved.target)).versions
        differences = [
            f"{name} {there[name]} there, {version} here"
            for name, version in lowered_with.items()
            if there.get(name) not in {None, version}
        ]
        return f"other versions: {'; '.join(differences)}" if differences else None

    def start_bench(self, target: str, settings: Settings, cache: Cache, stack: ExitStack) -> Bench:  # noqa: D102
        python = self._lacking_of(target).python if resolve(target).backend.run_toolchain else self.python
        worker = Worker(cache.log("run"), python, [WorkerBench.__module__], elsewhere=self.elsewhere)
        return stack.enter_context(FarBench(worker, settings.timeout_s, self.place))

    def backends(self, names: Sequence[str]) -> list[dict[str, Any]]:  # noqa: D102
        there = self._ask(AskBackends(tuple(names)))
        return [{**row, "lower": entry_of(row["name"])["lower"]} for row in there]  # lowering happens here

    def versions(self, names: Sequence[str]) -> dict[str, str | None]:  # noqa: D102
        return self._ask(AskVersions(tuple(names)))

    def checks(self) -> list[tuple[str, bool, str]]:  # noqa: D102
        facts = self.place.facts
        free, load = facts.get("free_kib", ""), facts.get("load") or "unknown"
        space = f"{int(free) / 1e6:,.1f} GB free" if free.isdecimal() else "free space unknown"
        return [(self.name, True, f"{facts.get('system')} {facts.get('architecture')}, {space}, load {load}")]

    def _lacking_of(self, target: str) -> Lacking:
        if target not in self._lacking:
            self._lacking[target] = self._ask(AskLacking(target))
        return self._lacking[target]

    def _ask(self, question: Question[Answer]) -> Answer:
        try:
            return self.observer.ask(question, ASK_S)
        except WorkerError as error:
            self.place.raise_if_lost(error)
            raise PlaceError(f"{self.name} cannot start our package: {error}") from error


@dataclass
class WithRunner(Site):
    """A machine at a place that has no Python: the C++ runner measures there."""

    place: Place
    elsewhere: Elsewhere
    runtimes: tuple[str, ...]
    """What the runner holds, by the first part of a target's name."""
    machine_there: Machine
    functional_only: str | None = None
    """Why durations there say nothing; None where they do."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """The place's."""
        return self.place.name

    @property
    def machine(self) -> Machine:  # noqa: D102
        return self.machine_there

    def snapshot(self) -> None:  # noqa: D102
        return None

    def condition(self) -> Condition | None:  # noqa: D102
        try:
            return self.place.condition()
        except PlaceError as error:
            self.place.raise_if_lost(error)
            raise

    def checks(self) -> list[tuple[str, bool, str]]:  # noqa: D102
        found = self.condition()
        return [] if found is None else [(self.name, True, f"{self.machine.cpu}, {found}")]

    def missing(self, resolved: Resolved) -> str | None:  # noqa: D102
        if resolved.target.name.partition(".")[0] in self.runtimes:
            return None
        return f"is not in the C++ runner on {self.name}, which holds {' and '.join(self.runtimes)}"

    def backends(self, names: Sequence[str]) -> list[dict[str, Any]]:  # noqa: D102
        rows = [entry_of(name) for name in names]
        reasons = {row["name"]: self.missing(resolve(row["name"])) for row in rows}
        return [{**row, "run": reasons[row["name"]] and {"reason": reasons[row["name"]], "remedy": ""}} for row in rows]

    def versions(self, names: Sequence[str]) -> dict[str, str | None]:  # noqa: D102
        return dict.fromkeys(names)

    def start_bench(self, target: str, settings: Settings, cache: Cache, stack: ExitStack) -> Bench:  # noqa: ARG002, D102
        worker = Worker(cache.log("run"), elsewhere=self.elsewhere)
        return stack.enter_context(RunnerBench(worker, settings.timeout_s, self.place, self.functional_only))


ASK_S = 120.0
"""Longest answer about a machine; its first one imports our package there."""
