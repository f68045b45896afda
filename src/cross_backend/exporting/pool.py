"""Pool: worker processes that lower, and stay alive for several targets: importing a compiler costs seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack

from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError, WorkerError
from cross_backend.registry import missing_here, resolve
from cross_backend.worker.process import Worker

VARIABLES = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Environment of the workers: several share the processors, and threads that spin take them from each other."""


class Pool:
    """Living workers that were given back; a dead one is replaced by the next ``take``."""

    def __init__(self, cache: Cache, stack: ExitStack) -> None:
        """Begin empty; the stack ends all workers."""
        self._cache, self._log = cache, cache.log("export")
        self._stack = stack
        self._idle: list[Worker] = []
        self._all: list[Worker] = []
        self._lock = threading.Lock()
        self._closed = False
        stack.callback(self.close)

    def take(self, python: str = sys.executable, preload: Sequence[str] = ()) -> Worker:
        """Return an idle worker of an interpreter, best one that began with these imports, or start one.

        Raises:
            WorkerError: the pool was closed.
        """
        with self._lock:
            if self._closed:
                raise WorkerError("interrupted before it began.")
            self._idle = [worker for worker in self._idle if worker.alive]
            fitting = [worker for worker in self._idle if worker.python == python]
            if not fitting:
                return self._start(python)
            worker = max(fitting, key=lambda worker: worker.preload == tuple(preload))
            self._idle.remove(worker)
            return worker

    def preload(self, texts: Sequence[str], count: int) -> None:
        """Start up to ``count`` idle workers, which import what the first targets' compilers need."""
        resolved = []
        for text in texts:
            with contextlib.suppress(CrossBackendError):
                resolved.append(resolve(text))
        usable = [one for one in resolved if one.backend.preload and missing_here(one.backend).lower is None]
        with self._lock:
            for one in usable[: max(0, count)]:
                self._idle.append(self._start(one.lowering_python, one.backend.preload))

    def _start(self, python: str, preload: Sequence[str] = ()) -> Worker:
        worker = self._stack.enter_context(Worker(self._log, python, preload, VARIABLES))
        self._all.append(worker)
        return worker

    def give_back(self, worker: Worker) -> None:
        """Make a worker idle again."""
        with self._lock:
            self._idle.append(worker)

    def close(self) -> None:
        """Stop all, and start no more."""
        with self._lock:
            self._closed = True
        for worker in self._all:
            worker.kill()
            self._cache.sweep(worker.pid)
