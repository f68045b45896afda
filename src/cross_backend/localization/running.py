"""Running: a program lowered to a target and called, in workers that stay for the next one."""

from __future__ import annotations

import statistics
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Bench, Subject
from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE
from cross_backend.errors import CrossBackendError, WorkerError
from cross_backend.exporting.export import Exported, ExportSettings, export_in
from cross_backend.exporting.pool import Pool
from cross_backend.program.captured import Captured
from cross_backend.records import Outcome
from cross_backend.registry import Resolved, resolve
from cross_backend.tensors import load_tensors, save_tensors

TIMED_S = 1.0
"""Seconds of timed calls of a program."""


@dataclass(frozen=True)
class RanPart:
    """How lowering and running a program ended."""

    outcome: Outcome
    """OK: it ran, right or wrong."""
    reason: str | None = None
    outputs: tuple[Any, ...] = ()
    """NumPy arrays, of the last input."""
    cached: bool = False
    artifact: Artifact | None = None


class Runner:
    """Lowers programs and runs them, in one worker for each target that two threads may not use at once."""

    def __init__(self, cache: Cache, settings: Settings, timeout_s: float, stack: ExitStack) -> None:
        """Start nothing yet; the stack ends all workers."""
        self.cache, self._settings, self._stack = cache, settings, stack
        self._exporting = ExportSettings(cache, timeout_s=timeout_s)
        self._pool = Pool(cache, stack)
        self._benches: dict[str, Bench] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._scratch: Path = stack.enter_context(cache.scratch())

    def lower(self, captured: Captured, target: str) -> Exported:
        """Return how lowering ended, from the cache where it is there."""
        return export_in(captured, target, self._exporting, self._pool)

    def run(self, captured: Captured, target: str, inputs: Sequence[Sequence[Any]] = ()) -> list[RanPart]:
        """Lower a program and call it on inputs, in its initial state and in their order.

        Args:
            captured: the program.
            target: with options.
            inputs: several; the sample's where there are none.

        Returns:
            One row an input; one row alone where it could not be lowered or opened.
        """
        row = self.lower(captured, target)
        if row.artifact is None or row.resolved is None:
            return [RanPart(row.outcome, row.reason, cached=row.cached)]
        key = f"{row.resolved.python} {target}"
        with self._locks.setdefault(key, threading.Lock()):
            return self._called(key, row, row.artifact, row.resolved, inputs)

    def _called(
        self, key: str, row: Exported, artifact: Artifact, resolved: Resolved, inputs: Sequence[Sequence[Any]]
    ) -> list[RanPart]:
        found: list[RanPart] = []
        failed_as = Outcome.LOAD_FAIL
        try:
            bench = self._bench(key, resolved)
            bench.open(Subject(artifact.payload_path, str(resolved.target), self._settings.threads))
            failed_as = Outcome.RUN_FAIL
            for given in inputs or (None,):
                path = self._scratch / f"{threading.get_ident()}.npz"
                if given is not None:
                    save_tensors(path, {"input": given})
                    bench.bind(path)
                bench.run(path)
                found.append(RanPart(Outcome.OK, None, load_tensors(path).get("output", ()), row.cached, artifact))
        except CrossBackendError as error:
            if isinstance(error, WorkerError):
                self._benches.pop(key).close()
            found.append(RanPart(failed_as, str(error), cached=row.cached, artifact=artifact))
        return found

    def _bench(self, key: str, resolved: Resolved) -> Bench:
        if key not in self._benches:
            self._benches[key] = HERE.start_bench(str(resolved.target), self._settings, self.cache, self._stack)
        return self._benches[key]

    def median_ms(self, artifact: Artifact, target: str) -> float:
        """Return the median duration of a call on the sample input.

        Raises:
            CrossBackendError: it cannot be opened or run.
        """
        resolved = resolve(target)
        key = f"{resolved.python} {target}"
        with self._locks.setdefault(key, threading.Lock()):
            bench = self._bench(key, resolved)
            bench.open(Subject(artifact.payload_path, str(resolved.target), self._settings.threads))
            return statistics.median(bench.sample(1000, 3, TIMED_S).ns) / 1e6
