"""Further instruments of a panel: taken of each target that works, alone in a fresh process; a crash costs one of them.

The latency that was measured among the other targets stands, whatever happens here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from cross_backend.worker.process import Worker
from cross_backend.cache import Cache
from cross_backend.comparison.trial import Settings, open_worker, verify
from cross_backend.errors import CrossBackendError, WorkerError, one_line
from cross_backend.export.export import Exported
from cross_backend.measure import instruments
from cross_backend.records import Further, Panel

INSTRUMENT_S = 2.0
"""Most seconds of each closed loop, and of each offered rate."""
LEAST_S = 0.5
ENOUGH_CALLS = 2000
"""Calls after which a closed loop may end that lasted :data:`LEAST_S`: the rate of a tiny program is known by then."""
ONE_STREAM = "throughput.streams_1"
"""The metric that tells the capacity, of which the open loop offers shares."""


@dataclass
class _Found:
    """What was found until now of one target."""

    batch: int
    task: tuple[str, Path] | None
    call_s: float
    """Seconds of a call, as it was measured among the others."""
    further: Further = field(default_factory=Further)

    def add(self, more: Further) -> None:
        """Keep what one instrument gave."""
        mine = self.further
        self.further = Further(
            (*mine.measurements, *more.measurements),
            {**mine.absent, **more.absent},
            {**mine.task, **more.task},
            {**mine.notes, **more.notes},
            {**mine.failures, **more.failures},
        )

    def fail(self, names: Sequence[str], reason: str) -> None:
        """Keep why instruments gave nothing."""
        self.add(Further(absent=dict.fromkeys(names, reason), failures=dict.fromkeys(names, reason)))

    @property
    def capacity_per_s(self) -> float | None:
        """Calls a second of one stream, where that was measured."""
        one = next((m for m in self.further.measurements if m.metric == ONE_STREAM), None)
        return None if one is None else sum(one.values) / one.count / self.batch


def take(
    row: Exported,
    names: Sequence[str],
    settings: Settings,
    cache: Cache,
    *,
    batch: int,
    task: tuple[str, Path] | None,
    call_s: float = INSTRUMENT_S,
) -> Further:
    """Take instruments of one target; after one that ends its process, the others go on in a fresh one.

    Args:
        row: what was exported.
        names: of ``instruments.INSTRUMENTS``.
        settings: how to open it.
        cache: where the worker's log goes.
        batch: inferences a call.
        task: name of the workload's metric and the file with its samples; None where it has none.
        call_s: seconds of a call, as it was measured among the others.
    """
    found, left = _Found(batch, task, call_s), instruments.in_order(names)
    if row.artifact is None:
        found.fail(left, row.reason or "it could not be lowered again")
        left = []
    while left:
        with ExitStack() as stack:
            try:
                worker = _opened(row, settings, cache, stack)
            except CrossBackendError as error:
                found.fail(left, f"it could not be opened again: {one_line(error)}")
                break
            left = _until_it_ends(worker, left, found, settings)
    return found.further


def _opened(row: Exported, settings: Settings, cache: Cache, stack: ExitStack) -> Worker:
    assert row.artifact is not None and row.resolved is not None
    worker, _ = open_worker(row.artifact.payload_path, str(row.resolved.target), settings, cache, stack)
    comparison = verify(worker, row.resolved.options, settings).comparison
    if not comparison.verdict:
        raise WorkerError(f"wrong outputs in another process: {comparison.reason}")
    return worker


def loop_s(call_s: float) -> float:
    """Return the seconds of a closed loop of calls that take so long."""
    return min(INSTRUMENT_S, max(LEAST_S, ENOUGH_CALLS * call_s))


def _until_it_ends(worker: Worker, names: Sequence[str], found: _Found, settings: Settings) -> list[str]:
    """Take instruments one by one; return those that are left when the process has ended."""
    for place, name in enumerate(names, start=1):
        try:
            more = instruments.take(
                worker,
                [name],
                batch=found.batch,
                timeout_s=settings.timeout_s,
                seconds=loop_s(found.call_s) if name == "throughput" else INSTRUMENT_S,
                seed=settings.seed,
                capacity_per_s=found.capacity_per_s,
                task=found.task,
            )
        except WorkerError as error:
            found.fail([name], one_line(error))
            return list(names[place:])
        found.add(more)
    return []


def with_further(panel: Panel, found: Mapping[int, Further]) -> Panel:
    """Add what further instruments gave to a panel's results."""
    results = list(panel.results)
    for index, further in found.items():
        result = results[index]
        broken = (f"{name}: its process failed: {reason}" for name, reason in further.failures.items())
        results[index] = replace(
            result,
            measurements=(*result.measurements, *further.measurements),
            absent={**result.absent, **further.absent},
            task={**result.task, **further.task},
            notes={**result.notes, **further.notes},
            failures={**result.failures, **further.failures},
            warnings=(*result.warnings, *broken),
        )
    return replace(panel, results=tuple(results))
