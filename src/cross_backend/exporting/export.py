"""Export: one workload to many targets: captured once, lowered in parallel worker processes, partial failures told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.errors import (
    CrossBackendError,
    UnavailableError,
    UnsupportedError,
    UsageError,
    WorkerError,
    WorkerTimeoutError,
)
from cross_backend.exporting.pool import Pool
from cross_backend.lowering.lower import Lower, check_lowers, find, relabelled, runs_nowhere
from cross_backend.machine import Machine
from cross_backend.placement import Placement
from cross_backend.program.captured import Captured
from cross_backend.program.captures import Capture, find_capture
from cross_backend.records import Outcome
from cross_backend.registry import Resolved, resolve
from cross_backend.workloads import Source

JOB_BYTES = 800_000_000
"""Memory of a worker that lowers a small program: torch and a vendor's compiler."""
JOB_PROGRAMS = 8
"""How many times its program's size a worker needs beside that."""
CAPTURE_TRIES = 2
"""A capture whose worker is killed is tried once more: everything else waits for it."""


@dataclass(frozen=True)
class Exported:
    """How one target ended."""

    text: str
    """The target as the user wrote it."""
    outcome: Outcome
    reason: str | None = None
    resolved: Resolved | None = None
    """None where the text names no target."""
    artifact: Artifact | None = None
    """Where the outcome is OK."""
    cached: bool = False
    seconds: float = 0.0
    """Wall time that this export spent on it."""


Observe = Callable[[str, str, Exported | None], None]
"""Called with (workload, target text or ``capture``, None when it begins, how it ended otherwise)."""


def ignore(workload: str, step: str, ended: Exported | None) -> None:
    """Observe nothing."""


def lines(show: Callable[[str, str, float | None], None]) -> Observe:
    """Return an observer that shows a line per target: ``show(key, text, 1 where it ended)``."""

    def observe(workload: str, step: str, ended: Exported | None) -> None:
        doing = "capture" if step == "capture" else f"lower to {step}"
        if ended is None:
            show(f"{workload} {step}", f"{workload}: {doing}", None)
            return
        how = "from the cache" if ended.cached else f"{ended.seconds:.1f} s"
        if ended.outcome is not Outcome.OK:
            how = str(ended.outcome)
        elif ended.reason:
            how = f"{how}; {ended.reason}"
        show(f"{workload} {step}", f"{workload}: {doing}: {how}", 1)

    return observe


@dataclass(frozen=True)
class ExportSettings:
    """How to export."""

    cache: Cache
    jobs: int = 0
    """Most worker processes; 0 for as many as there are processors."""
    timeout_s: float = 1800.0
    """Longest capture or lowering."""
    output_dir: Path | None = None
    """Where artifacts are copied; they stay in the cache only where None."""
    bundled: bool = False
    """Whether backends whose runtime has such a format also write the program with its sample inside."""
    min_coverage: float = 0.0
    """Smallest share, of operators and of floating point operations, that a backend must execute itself."""
    only_explained: bool = False
    """Whether artifacts are not to be run, so that one that runs nowhere is delivered, too."""

    def bundles(self, resolved: Resolved) -> bool:
        """Whether a target gets a bundled program: where it was asked for and the runtime has such a format."""
        return self.bundled and resolved.backend.bundled is not None

    def workers(self, program_bytes: int) -> int:
        """Return the number of worker processes for a program: never more than fit into the memory that is free now."""
        import psutil

        wanted = self.jobs or max(1, Machine.here().usable_cpus)
        fitting = psutil.virtual_memory().available // (JOB_BYTES + JOB_PROGRAMS * program_bytes)
        return max(1, int(min(wanted, fitting)))


def export(
    source: Source | Captured, texts: Sequence[str], settings: ExportSettings, observe: Observe = ignore
) -> tuple[Captured, list[Exported]]:
    """Capture once, unless the caller did, and lower to every target; rows come back in the order of ``texts``.

    What finished before an interrupt is in the cache, and in the output folder where there is one.

    Raises:
        CrossBackendError: the workload itself cannot be built or captured.
        OSError: the cache or the output folder cannot be written.
    """
    rows: dict[int, Exported] = {}
    with ExitStack() as stack:
        pool = Pool(settings.cache, stack)
        captured = source if isinstance(source, Captured) else _capture(source, texts, settings, pool, observe)
        waiting: list[tuple[int, Resolved]] = []
        for index, text in enumerate(texts):
            row = _without_work(captured, text, settings)
            if isinstance(row, Resolved):
                waiting.append((index, row))
            else:
                rows[index] = _deliver(captured, row, settings, observe)
        for index, row in _lower_all(captured, texts, waiting, settings, pool, observe):
            rows[index] = _deliver(captured, row, settings, observe)
    return captured, [rows[index] for index in range(len(texts))]


def export_in(captured: Captured, text: str, settings: ExportSettings, pool: Pool) -> Exported:
    """Lower to one target in a pool that the caller keeps for further programs."""
    row = _without_work(captured, text, settings)
    if isinstance(row, Resolved):
        row = _lower_one(captured, text, row, settings, pool, ignore)
    return _deliver(captured, row, settings, ignore)


def _capture(source: Source, texts: Sequence[str], settings: ExportSettings, pool: Pool, observe: Observe) -> Captured:
    observe(source.name, "capture", None)
    started = time.perf_counter()
    found = find_capture(source, settings.cache)
    captured = found or _capture_in_worker(source, texts, settings, pool)
    seconds = time.perf_counter() - started
    told = "the module was in training mode and was switched to evaluation mode" if captured.was_training else None
    observe(source.name, "capture", Exported("capture", Outcome.OK, told, cached=found is not None, seconds=seconds))
    return captured


def _capture_in_worker(source: Source, texts: Sequence[str], settings: ExportSettings, pool: Pool) -> Captured:
    """Capture in one worker, while others import the compilers that come next."""
    question = Capture(
        source.text, source.weights, source.batch, settings.cache.root, source.own, source.calibration, source.task
    )
    for attempt in range(CAPTURE_TRIES):
        worker = pool.take()
        if attempt == 0:
            pool.preload(texts, settings.workers(0) - 1)
        try:
            folder, was_training = worker.ask(question, settings.timeout_s)
            captured = Captured.read(folder)
            return replace(captured, workload=source.name, was_training=was_training, task_from=source.task)
        except WorkerTimeoutError:
            raise
        except WorkerError:
            if attempt == CAPTURE_TRIES - 1:
                raise
        finally:
            pool.give_back(worker)
    raise AssertionError("unreachable")


def _without_work(captured: Captured, text: str, settings: ExportSettings) -> Exported | Resolved:
    """End a target that needs no worker: a wrong name, a reason why not, or a cached artifact."""
    resolved = None
    try:
        resolved = resolve(text)
        artifact = find(captured, resolved, settings.cache, bundled=settings.bundles(resolved))
        if artifact is not None:
            return Exported(text, Outcome.OK, None, resolved, artifact, cached=True)
        check_lowers(captured, resolved)
    except CrossBackendError as error:
        return Exported(text, outcome_of(error, Outcome.LOWER_FAIL), str(error), resolved)
    return resolved


def outcome_of(error: Exception, otherwise: Outcome) -> Outcome:
    """Return the outcome that an exception stands for."""
    if isinstance(error, UnavailableError):
        return Outcome.UNAVAILABLE
    if isinstance(error, UnsupportedError | UsageError):
        return Outcome.UNSUPPORTED
    if isinstance(error, WorkerTimeoutError):
        return Outcome.TIMEOUT
    return otherwise


def _lower_all(
    captured: Captured,
    texts: Sequence[str],
    waiting: Sequence[tuple[int, Resolved]],
    settings: ExportSettings,
    pool: Pool,
    observe: Observe,
) -> Iterator[tuple[int, Exported]]:
    """Yield (index, row) as targets finish; the same target asked for twice is lowered once."""
    same: dict[str, list[int]] = {}
    for index, resolved in waiting:
        same.setdefault(str(resolved.lowering), []).append(index)
    resolved_at = dict(waiting)
    program = captured.folder / captured.program_name
    executor = ThreadPoolExecutor(settings.workers(program.stat().st_size))
    try:
        futures: dict[Future[Exported], list[int]] = {}
        for indices in same.values():
            text, resolved = texts[indices[0]], resolved_at[indices[0]]
            futures[executor.submit(_lower_one, captured, text, resolved, settings, pool, observe)] = indices
        while futures:
            done, _ = wait(futures, return_when=FIRST_COMPLETED)
            for future in done:
                for index in futures.pop(future):
                    yield index, replace(future.result(), text=texts[index], resolved=resolved_at[index])
    finally:
        pool.close()  # threads of an interrupted export wait for answers that must not come
        executor.shutdown(wait=True, cancel_futures=True)


def _lower_one(
    captured: Captured, text: str, resolved: Resolved, settings: ExportSettings, pool: Pool, observe: Observe
) -> Exported:
    observe(captured.workload, text, None)
    started = time.perf_counter()
    try:
        worker = pool.take(resolved.lowering_python, resolved.backend.preload)
        try:
            question = Lower(captured.folder, str(resolved.target), settings.bundles(resolved), settings.cache.root)
            manifest, cached = worker.ask(question, settings.timeout_s)
        finally:
            pool.give_back(worker)
        artifact = replace(Artifact.read(manifest), workload=captured.workload)
        return Exported(text, Outcome.OK, None, resolved, artifact, cached, time.perf_counter() - started)
    except CrossBackendError as error:
        seconds = time.perf_counter() - started
        return Exported(text, outcome_of(error, Outcome.LOWER_FAIL), str(error), resolved, seconds=seconds)


def _deliver(captured: Captured, row: Exported, settings: ExportSettings, observe: Observe) -> Exported:
    """Refuse an artifact below the floor of coverage, copy a good one to the output folder, and tell the observer."""
    if row.artifact is not None and row.resolved is not None:
        artifact, resolved = relabelled(row.artifact, captured, row.resolved), row.resolved
        held = artifact.placement
        poor = _below(held, settings.min_coverage)
        if poor is not None:
            row = replace(row, outcome=Outcome.LOWER_FAIL, reason=poor, artifact=None)
        elif held.without_kernel and not settings.only_explained:
            row = replace(row, outcome=Outcome.UNSUPPORTED, reason=runs_nowhere(resolved, held), artifact=None)
        else:
            folder = settings.output_dir
            row = replace(row, artifact=artifact if folder is None else deliver(artifact, resolved, folder))
    observe(captured.workload, row.text, row)
    return row


def _below(placement: Placement, floor: float) -> str | None:
    """Return how a placement falls short of a floor."""
    shares = {"operators": placement.coverage, "floating point operations": placement.flop_coverage}
    short = [
        f"{math.floor(share * 1000) / 10:g}% of the {name}"  # rounded down: 89.96 % are not 90
        for name, share in shares.items()
        if share is not None and share < floor
    ]
    if not short:
        return None
    left = ", ".join(f"{row.count} × {row.name}" for row in placement.left[:3])
    more = ", …" if len(placement.left) > 3 else ""
    return f"executes only {' and '.join(short)}; {floor * 100:g}% is asked for. Not delegated: {left}{more}."


def deliver(artifact: Artifact, resolved: Resolved, folder: Path) -> Artifact:
    """Copy a cached artifact into a folder under its public name; the sample is shared by all of one model."""
    name = f"{artifact.workload}_{resolved.stem}"
    return artifact.copy_to(folder, name, str(resolved.target), f"{artifact.workload}_sample.npz")
