"""The Ray launcher: hands panels to a cluster, and keeps what its nodes tell.

Ray places tasks, and notices nodes that die. Here is only which panels are under way, what became of them, and which
nodes take no part any more.
"""

from __future__ import annotations

import contextlib
import math
import pickle
import statistics
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cross_backend._version import __version__
from cross_backend.errors import one_line
from cross_backend.records import Panel, PanelKey
from cross_backend.study.books import Book
from cross_backend.study.kinds import MachineKind
from cross_backend.study.launchers.cluster import Cluster
from cross_backend.study.launchers.events import KEPT, Begun, Doing, Ended, Event, Failed, Launched, NodeFacts, Taken
from cross_backend.study.launchers.launcher import Launcher, PanelJob
from cross_backend.study.launchers.preparing import Preparing
from cross_backend.study.launchers.there import ToMeasure, panel_by_value
from cross_backend.study.machines import MEASURE, MachineClass
from cross_backend.study.spec import StudySpec
from cross_backend.study.watch import ClassProgress, Watch

if TYPE_CHECKING:
    import ray

AHEAD = 2
"""Panels for each machine that Ray holds at a time: one that is measured, and the next."""
TRIES = 3
"""So often a panel may lose its machine until it is given up."""
TICK_S = 1.0
"""Longest wait for the next event."""
LOOK_S = 2.0
"""Between two looks at the nodes."""
GRACE_S = 60.0
"""So long a class may be without machines until its panels are given up."""
NOISY = 0.2
"""A noise floor, as a relative difference, from which on a machine detects too little."""
NOISY_AFTER = 3
"""Panels of a machine until its noise floors are judged, by their median."""
RECENT = 20
"""Panels by which noise and time left are judged."""


@dataclass
class _Flight:
    """A panel that Ray has."""

    job: PanelJob
    machine: MachineClass
    stream: ray.ObjectRefGenerator
    facts: NodeFacts | None = None
    """Where it is measured; None while it waits."""
    begun_s: float = 0.0
    """When that began, by this process' clock."""

    @property
    def kind(self) -> MachineKind:
        assert self.facts is not None, "a node says first who it is"
        return self.facts.kind


class RayLauncher(Launcher):
    """Measures on the nodes of a Ray cluster: one panel at a time on each."""

    def __init__(
        self, cluster: Cluster, shared: str | None = None, max_noise: float = NOISY, grace_s: float = GRACE_S
    ) -> None:
        """Prepare.

        Args:
            cluster: connected.
            shared: URL of a folder that all nodes reach; where None, artifacts travel through Ray's object store.
            max_noise: noise floor from which on a machine is set aside, as a relative difference.
            grace_s: how long a class may be without machines until its panels are given up.
        """
        import ray

        self._cluster, self._shared, self._max_noise, self._grace_s = cluster, shared, max_noise, grace_s
        self._panel = ray.remote(num_cpus=0, max_retries=0, num_returns="streaming")(panel_by_value(__version__))
        self._waiting: dict[MachineClass, deque[PanelJob]] = {}
        self._flights: dict[ray.ObjectRefGenerator, _Flight] = {}
        self._tries: Counter[tuple[MachineClass, PanelKey]] = Counter()
        self._floors: dict[str, deque[float]] = {}
        self._without_since: dict[MachineClass, float] = {}
        self._panel_s: dict[MachineClass, deque[float]] = {}
        self._missing: list[str] = []
        self._watch = Watch()

    def studies(self, study: StudySpec) -> tuple[StudySpec, ...]:  # noqa: D102  the declaration says it
        self._cluster.look()
        self._cluster.describe(study.panels()[0].targets)
        classes = self._cluster.classes(study.machines)
        return tuple(study.of(machine) for machine in classes)

    def claim(self, book: Book) -> None:  # noqa: D102
        book.resume()
        for node in self._cluster.of(book.study.machines[0]):
            if node.facts is not None and book.study.machines[0].place is None:
                book.begin(node.facts.kind)

    def launch(self, jobs: Sequence[PanelJob], watch: Watch) -> Sequence[str]:  # noqa: D102
        import ray

        self._watch = watch
        for number, why in self._cluster.excluded.items():
            watch.note(f"⚠️ {self._cluster.name(number)} takes no part: {why}.")
        books = {job.book.study.machines[0]: job.book for job in jobs}
        asked = {machine: len(book.study.panels()) for machine, book in books.items()}
        for job in jobs:
            self._waiting.setdefault(job.book.study.machines[0], deque()).append(job)
        preparing = Preparing(self._cluster, self._shared, jobs)
        looked_s = 0.0
        try:
            while any(self._waiting.values()) or self._flights:
                self._submit(preparing)
                if self._flights:
                    ready, _ = ray.wait(list(self._flights), num_returns=1, timeout=TICK_S)
                    for stream in ready:
                        self._take(self._flights[stream], preparing)
                else:
                    time.sleep(TICK_S / 4)
                if time.monotonic() - looked_s > LOOK_S:
                    self._look()
                    watch.classes(
                        [self._progress(book, asked[book.study.machines[0]], preparing) for book in books.values()]
                    )
                    looked_s = time.monotonic()
        finally:
            preparing.close()
            for stream in self._flights:
                with contextlib.suppress(Exception):  # the cluster may be gone
                    ray.cancel(stream, force=True)
            self._flights.clear()
        return self._missing

    def _submit(self, preparing: Preparing) -> None:
        """Hand panels to Ray while it has few of a class."""
        for machine, waiting in self._waiting.items():
            most = AHEAD * len(self._cluster.of(machine))
            under_way = sum(flight.machine == machine for flight in self._flights.values())
            while waiting and under_way < most:
                job = waiting.popleft()
                ready, blobs = preparing.of(job)
                study = job.book.study
                asked = ToMeasure(job.spec, study.settings, dict(job.book.stored(job.key)), machine.place, self._shared)
                task = self._panel.options(
                    resources={**machine.resources, MEASURE: 1},
                    label_selector=self._cluster.selector(),
                    name=f"cross-backend measures on {machine.name}",  # Ray keeps a counter of every name
                )
                stream = task.remote(pickle.dumps(asked), ready, [blobs])
                self._flights[stream] = _Flight(job, machine, stream)
                under_way += 1

    def _take(self, flight: _Flight, preparing: Preparing) -> None:
        """Take the next events of a panel."""
        import ray

        try:
            events = ray.get(next(flight.stream))
        except StopIteration:
            if flight.stream in self._flights:
                self._lost(flight, "it ended without a word")
            return
        except ray.exceptions.RayError as error:
            self._lost(flight, _why(error))
            return
        if isinstance(events, tuple):  # from a node that has not our classes
            self._refused(flight, str(events[1]))
            return
        for event in events:
            if isinstance(event, Begun):
                flight.facts, flight.begun_s = self._cluster.known(event.facts), time.monotonic()
                flight.job.book.begin(flight.kind)
        with flight.job.book.together() if any(isinstance(one, KEPT) for one in events) else contextlib.nullcontext():
            panels = [panel for event in events if (panel := self._keep(flight, event)) is not None]
        for event in events:
            self._told(flight, event, preparing)
        for panel in panels:
            self._watch.panel(panel)
            self._judge(flight, panel)

    def _keep(self, flight: _Flight, event: Event) -> Panel | None:
        """Store what an event brings; return the panel that it ends."""
        job = flight.job
        match event:
            case Launched(index=index, launch=launch):
                job.book.keep_launch(flight.kind, job.key, index, launch)
            case Taken(target=target, further=further):
                job.book.keep_further(flight.kind, job.key, target, further)
            case Ended():
                return job.book.finish_panel(flight.kind, job.key)
        return None

    def _told(self, flight: _Flight, event: Event, preparing: Preparing) -> None:
        """Act on an event whose content is stored."""
        job = flight.job
        match event:
            case Launched(index=index):
                self._watch.stored(job.key, f"launch {index + 1} on {flight.machine.name}")
            case Taken(title=title):
                self._watch.stored(job.key, f"further measurements of {title} on {flight.machine.name}")
            case Doing(text=text, share=share):
                self._watch.machine(self._name(flight), f"{job.key}: {text}", share)
            case Ended():
                del self._flights[flight.stream]
                preparing.done(job)
                self._panel_s.setdefault(flight.machine, deque(maxlen=RECENT)).append(time.monotonic() - flight.begun_s)
                self._watch.machine(self._name(flight), "waits for a panel", None)
            case Failed(is_unprepared=True):
                preparing.forget(job)
                self._lost(flight, str(event.error))
            case Failed(error=error, node_is_bad=True):
                if flight.facts is not None:
                    self._set_aside(flight.facts.node, str(error))
                self._lost(flight, str(error))
            case Failed(error=error):
                raise error

    def _lost(self, flight: _Flight, why: str) -> None:
        """Have a panel taken again whose machine was lost; what is stored of it stays."""
        self._flights.pop(flight.stream, None)
        key = (flight.machine, flight.job.key)
        self._tries[key] += 1
        where = f" on {self._name(flight)}" if flight.facts is not None else ""
        if self._tries[key] >= TRIES:
            self._give_up(flight.job, flight.machine, f"lost {TRIES} times, at last{where}: {why}")
            return
        self._watch.note(f"⚠️ {flight.job.key}{where}: {why}; it is taken again.")
        self._waiting[flight.machine].appendleft(flight.job)

    def _refused(self, flight: _Flight, why: str) -> None:
        """Exclude a node that joined with another version; the cluster's next look says which one it is."""
        self._flights.pop(flight.stream, None)
        known = set(self._cluster.excluded)
        self._cluster.look()
        self._cluster.describe(flight.job.spec.targets)
        for number in self._cluster.excluded.keys() - known:
            self._watch.note(f"⚠️ {self._cluster.name(number)} takes no part: {self._cluster.excluded[number]}.")
        if self._cluster.excluded.keys() == known:
            self._lost(flight, why)
        else:
            self._waiting[flight.machine].appendleft(flight.job)

    def _judge(self, flight: _Flight, panel: Panel) -> None:
        """Set a machine aside whose noise floor is bad, if its class has another one."""
        if panel.noise_floor is None or flight.facts is None:
            return
        number = flight.facts.node
        floors = self._floors.setdefault(number, deque(maxlen=RECENT))
        floors.append(math.expm1(panel.noise_floor))
        typical = statistics.median(floors)
        if len(floors) < NOISY_AFTER or typical <= self._max_noise or number in self._cluster.excluded:
            return
        why = f"its noise floor is {typical:.0%}, the median of {len(floors)} panels; {self._max_noise:.0%} is allowed"
        if len(self._cluster.of(flight.machine)) > 1:
            self._set_aside(number, why)
        elif len(floors) == NOISY_AFTER:
            self._watch.note(f"⚠️ {self._name(flight)}: {why}. It is the only machine of its class, so it goes on.")

    def _set_aside(self, number: str, why: str) -> None:
        """Let a node have no further panel; those that wait for it go to others."""
        import ray

        if number in self._cluster.excluded:
            return
        self._cluster.excluded[number] = why
        self._watch.note(f"⚠️ {self._cluster.name(number)} is set aside: {why}.")
        for flight in [one for one in self._flights.values() if one.facts is None]:
            ray.cancel(flight.stream)  # it waits in Ray, perhaps for that node
            del self._flights[flight.stream]
            self._waiting[flight.machine].appendleft(flight.job)

    def _look(self) -> None:
        """Look at the nodes; give up the panels of a class that has had no machine for long."""
        self._cluster.look()
        for machine, waiting in self._waiting.items():
            mine = [one for one in self._flights.values() if one.machine == machine]
            if self._cluster.of(machine) or not (waiting or mine):
                self._without_since.pop(machine, None)
                continue
            since = self._without_since.setdefault(machine, time.monotonic())
            if since == max(self._without_since.values()) and time.monotonic() - since < LOOK_S:
                self._watch.note(
                    f"⚠️ class {machine} has no machine now; its panels wait {self._grace_s:.0f} s for one."
                )
            if time.monotonic() - since > self._grace_s:
                import ray

                for flight in mine:
                    ray.cancel(flight.stream, force=True)
                    del self._flights[flight.stream]
                for job in [*(one.job for one in mine), *waiting]:
                    self._give_up(job, machine, "its machine was lost, and there is no other of its class")
                waiting.clear()

    def _progress(self, book: Book, asked: int, preparing: Preparing) -> ClassProgress:
        """Return how far a class is, and what its panels wait for."""
        machine = book.study.machines[0]
        machines, finished, taken_s = len(self._cluster.of(machine)), len(book.finished), self._panel_s.get(machine)
        idle = [one for one in self._flights.values() if one.machine == machine and one.facts is None]
        unprepared = sum(not preparing.is_ready(one.job) for one in idle)
        waiting = len(self._waiting[machine]) + len(idle) - unprepared
        left_s = statistics.fmean(taken_s) * (asked - finished) / machines if taken_s and machines else None
        return ClassProgress(machine.name, machines, finished, asked, unprepared, waiting, left_s)

    def _give_up(self, job: PanelJob, machine: MachineClass, why: str) -> None:
        self._missing.append(f"{job.key} on {machine.name}: {why}.")

    def _name(self, flight: _Flight) -> str:
        return self._cluster.name(flight.facts.node) if flight.facts else flight.machine.name


def _why(error: Exception) -> str:
    """Return why Ray lost a task, without the pages that it says beside that."""
    kinds = {
        "NodeDiedError": "its node died",
        "WorkerCrashedError": "its process was killed",
        "LocalRayletDiedError": "the raylet of its node died",
        "OutOfMemoryError": "its node ran out of memory",
        "ObjectLostError": "its prepared artifacts are lost",
        "OwnerDiedError": "its prepared artifacts are lost",
        "TaskUnschedulableError": "no node can take it any more",
    }
    return kinds.get(type(error).__name__, one_line(error))
