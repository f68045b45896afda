"""There: what runs on the nodes of a cluster: describe the node, capture and lower, measure a panel."""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cross_backend.cache import Cache
from cross_backend.comparison.sites import site_at
from cross_backend.errors import CrossBackendError, PlaceError, one_line
from cross_backend.exporting.export import Exported, ExportSettings, export, ignore
from cross_backend.lowering.lower import KIND as ARTIFACTS
from cross_backend.machine import Machine
from cross_backend.places.address import parse
from cross_backend.program.captured import Captured
from cross_backend.program.captures import KIND as CAPTURES
from cross_backend.records import Outcome
from cross_backend.study.kinds import versions_of
from cross_backend.study.launchers import parcels
from cross_backend.study.launchers.events import Begun, Doing, Ended, Event, Failed, Launched, NodeFacts, Taken
from cross_backend.study.measuring import Keep, Stored, measure, resolved
from cross_backend.study.spec import PanelSpec, StudySettings

if TYPE_CHECKING:
    import ray

SET_BY_RAY = ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Environment variables that Ray sets for its tasks, and ``study run`` does not."""
PROGRESS_S = 1.0
"""Between two tellings of progress: each is an object of Ray's."""
GATHER_S = 0.05
"""How long an event waits for the next ones, to travel with them."""
ELSEWHERE = (Outcome.OK, Outcome.UNAVAILABLE)
"""Outcomes of a lowering that may be another one on the node that measures."""


def by_value(task: str, version: str) -> Callable[..., Any]:
    """Return a function that Ray sends with its code; it refuses where our package is absent or of another version.

    What it is given is pickled beforehand: where our package is absent, nothing of ours can be read.

    Args:
        task: name of a function in this module.
        version: of our package here.
    """

    def call(*given: Any) -> Any:
        import importlib

        try:
            there = importlib.import_module("cross_backend._version").__version__
        except Exception as error:
            why = f"cross-backend cannot be imported ({type(error).__name__}); install cross-backend=={version} there"
            return ("refused", why)
        if there != version:
            return ("refused", f"it has cross-backend {there}, and this is {version}; install the same there")
        return getattr(importlib.import_module("cross_backend.study.launchers.there"), task)(*given)

    return call


def panel_by_value(version: str) -> Callable[..., Iterator[Any]]:
    """Return :func:`panel` as a function that Ray sends with its code; as :func:`by_value`."""
    check = by_value("nothing", version)

    def call(*given: Any) -> Iterator[Any]:
        refused = check()
        if refused is not None:
            yield refused
            return
        import importlib

        yield from importlib.import_module("cross_backend.study.launchers.there").panel(*given)

    return call


def nothing() -> None:
    """Do nothing: our package is there."""


def describe(targets: Sequence[str]) -> NodeFacts:
    """Describe this node."""
    import ray

    machine, versions = Machine.here(), versions_of(targets)
    return NodeFacts(ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), machine, versions)


@dataclass(frozen=True)
class ToPrepare:
    """A workload at a batch size, and the targets that it is lowered to."""

    spec: PanelSpec
    settings: StudySettings
    shared: str | None
    """URL of the shared cache; None where bytes travel through Ray's object store."""


@dataclass(frozen=True)
class PreparedWorkload:
    """A workload that was captured and lowered, without its bytes."""

    captured: str | None
    """Key of the capture; None where that failed."""
    workload: str
    parcels: tuple[parcels.Parcel, ...] = ()
    rows: tuple[tuple[str, Outcome, str | None], ...] = ()
    """Of each target: its text, how lowering ended, and why."""
    error: CrossBackendError | None = None
    """Why there is no capture, or nothing could be written."""
    is_verdict: bool = True
    """Whether the error says something of the model, and not of the machine that tried."""


def prepare(pickled: bytes) -> tuple[bytes, dict[str, bytes]]:
    """Capture a workload and lower it to all targets; return what that gave, and its bytes where they travel along.

    Args:
        pickled: a :class:`ToPrepare`.

    Returns:
        A pickled :class:`PreparedWorkload`, and digest → bytes.
    """
    asked: ToPrepare = pickle.loads(pickled)
    _leave_ray()
    prepared, blobs = _prepared(asked, Cache())
    return pickle.dumps(prepared), blobs


def _prepared(asked: ToPrepare, cache: Cache) -> tuple[PreparedWorkload, dict[str, bytes]]:
    spec = asked.spec
    how = ExportSettings(cache, asked.settings.jobs, asked.settings.timeout_s, min_coverage=asked.settings.min_coverage)
    name = spec.workload.name
    try:
        captured, rows = export(spec.workload.source(spec.batch), spec.targets, how)
        shelf = parcels.SharedFolder(asked.shared) if asked.shared else parcels.Carried()
        entries = [(CAPTURES, captured.folder.name)]
        entries += [(ARTIFACTS, row.artifact.folder.name) for row in rows if row.artifact is not None]
        packed = parcels.pack(cache, entries, shelf)
    except (PlaceError, OSError) as error:
        return PreparedWorkload(None, name, error=_told(error), is_verdict=False), {}
    except CrossBackendError as error:
        return PreparedWorkload(None, name, error=error), {}
    ended = tuple((row.text, row.outcome, row.reason) for row in rows)
    blobs = shelf.blobs if isinstance(shelf, parcels.Carried) else {}
    return PreparedWorkload(captured.folder.name, captured.workload, packed, ended), blobs


@dataclass(frozen=True)
class ToMeasure:
    """A panel, and what is stored of it."""

    spec: PanelSpec
    settings: StudySettings
    stored: dict[str, Stored]
    """By kind of machine."""
    place: str | None
    """Of the machine that measures; None where that is the node."""
    shared: str | None


def panel(
    pickled: bytes, ready: bytes | str, blobs: Sequence[ray.ObjectRef[dict[str, bytes]]]
) -> Iterator[list[Event]]:
    """Measure a panel; yield what there is to tell, as it happens.

    Args:
        pickled: a :class:`ToMeasure`.
        ready: what :func:`prepare` gave; a text where a node refused to.
        blobs: one reference to its bytes, which is followed only where something is missing here.
    """
    asked: ToMeasure = pickle.loads(pickled)
    _leave_ray()
    if isinstance(ready, str):
        yield [Failed(PlaceError("the node that was to capture and lower refused"), is_unprepared=True)]
        return
    prepared: PreparedWorkload = pickle.loads(ready)
    if prepared.error is not None and not prepared.is_verdict:
        yield [Failed(prepared.error)]
        return
    yield from streamed(functools.partial(_panel, asked, prepared, blobs))


def streamed(work: Callable[[Callable[[Event], None]], None]) -> Iterator[list[Event]]:
    """Run work that reports events in a thread; yield them in lists, the last of which says how it ended."""
    told: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def run() -> None:
        try:
            work(told.put)
            told.put(Ended())
        except (PlaceError, OSError) as error:
            told.put(Failed(_told(error), node_is_bad=True))
        except CrossBackendError as error:
            told.put(Failed(error))
        except BaseException as error:
            told.put(Failed(CrossBackendError(one_line(error)), node_is_bad=True))

    threading.Thread(target=run, daemon=True).start()
    gathered: list[Event] = []
    while not gathered or not isinstance(gathered[-1], Ended | Failed):
        gathered = [told.get()]
        with contextlib.suppress(queue.Empty):
            while not isinstance(gathered[-1], Ended | Failed):
                gathered.append(told.get(timeout=GATHER_S))
        yield gathered


def _panel(
    asked: ToMeasure,
    prepared: PreparedWorkload,
    blobs: Sequence[ray.ObjectRef[dict[str, bytes]]],
    tell: Callable[[Event], None],
) -> None:
    spec, cache, last_s = asked.spec, Cache(), 0.0
    facts = describe(spec.targets)

    def progress(text: str, share: float) -> None:
        nonlocal last_s
        if time.monotonic() - last_s >= PROGRESS_S:
            last_s = time.monotonic()
            tell(Doing(text, share))

    with site_at(parse(asked.place or "local"), cache) as site:
        facts = replace(facts, machine=site.machine)
        tell(Begun(facts))
        measure(
            spec,
            asked.settings,
            asked.stored.get(facts.kind.digest, Stored()),
            functools.partial(_export, asked, prepared, blobs, cache),
            cache,
            site,
            Keep(
                lambda index, launch: tell(Launched(index, launch)),
                lambda target, title, further: tell(Taken(target, title, further)),
                progress,
            ),
        )


def _export(
    asked: ToMeasure, prepared: PreparedWorkload, blobs: Sequence[ray.ObjectRef[dict[str, bytes]]], cache: Cache
) -> tuple[Captured, Sequence[Exported]]:
    """Fetch what was prepared; lower here only what another machine could not lower for this one."""
    if prepared.captured is None:
        assert prepared.error is not None
        raise prepared.error
    wanted = parcels.missing(cache, prepared.parcels)
    if wanted:
        import ray

        shelf = parcels.SharedFolder(asked.shared) if asked.shared else parcels.Carried(ray.get(blobs[0]))
        parcels.unpack(cache, wanted, shelf)
    captured = replace(Captured.read(cache.root / CAPTURES / prepared.captured), workload=prepared.workload)
    how = ExportSettings(cache, asked.settings.jobs, asked.settings.timeout_s, min_coverage=asked.settings.min_coverage)
    able = [text for text, outcome, _ in prepared.rows if outcome in ELSEWHERE]
    found = iter(export(captured, able, how, ignore)[1])
    rows = [
        next(found) if outcome in ELSEWHERE else Exported(text, outcome, reason, resolved(text))
        for text, outcome, reason in prepared.rows
    ]
    return captured, rows


def _told(error: PlaceError | OSError) -> PlaceError:
    return error if isinstance(error, PlaceError) else PlaceError(one_line(error))


def _leave_ray() -> None:
    """Undo what Ray does to its tasks and ``study run`` has not: environment variables and a low priority."""
    import psutil

    with contextlib.suppress(psutil.Error, OSError):
        raylet = psutil.Process(os.getppid())
        before = raylet.environ()
        for name in SET_BY_RAY:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)
        if hasattr(os, "setpriority"):
            os.setpriority(os.PRIO_PROCESS, 0, raylet.nice())
