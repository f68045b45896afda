"""Worker: a process that examines programs, one after the other; what ends it, or keeps it for ever, is a finding."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from atalla.errors import AtallaError
from atalla.fuzz.compare import Finding, Outcome, examine
from atalla.fuzz.executors import Executor, executors
from atalla.fuzz.graph import Graph

if TYPE_CHECKING:
    import torch

PATIENCE_S = 60.0
"""A program that takes longer hangs."""
START_S = 180.0
"""So long may a worker take to be there: torch is imported."""
LEAVE_S = 10.0
"""So long may it take to go."""


class Worker:
    """A process, started when it is needed, and again when it ended."""

    def __init__(self, precision: str, more: Sequence[str] = (), patience_s: float = PATIENCE_S) -> None:
        self._arguments = precision, tuple(more)
        self._patience_s = patience_s
        self._process: Any = None
        self._pipe: Connection | None = None
        self._place: Any = None

    def examine(self, graph: Graph) -> Outcome:
        """Return what becomes of a program; a crash or a hang, too, is an outcome.

        Raises:
            AtallaError: the process does not start.
        """
        pipe = self._pipe or self._start()
        try:
            pipe.send(graph.to_dict())
            if not pipe.poll(self._patience_s):
                executor = self._where()
                self.close(hangs=True)
                return _ended("hang", executor, f"nothing after {self._patience_s:g} s")
            found: Outcome = pipe.recv()
        except (EOFError, OSError):
            process, executor = self._process, self._where()
            process.join()
            code = process.exitcode
            self.close()
            return _ended("crash", executor, signal.Signals(-code).name if code < 0 else f"exit status {code}")
        return found

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        self._place = context.Array("c", 200, lock=False)
        self._process = context.Process(target=_serve, args=(theirs, self._place, *self._arguments), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe = ours
        if not ours.poll(START_S):
            self.close()
            raise AtallaError("a worker did not start")
        try:
            ours.recv()
        except EOFError as error:
            self.close()
            raise AtallaError("a worker ended as it started: it imports what this process does") from error
        return ours

    def _where(self) -> str:
        return bytes(self._place.value).decode(errors="replace") or "compile"

    def close(self, *, hangs: bool = False) -> None:
        """End the process; one that hangs is not waited for."""
        if self._pipe is not None:
            self._pipe.close()
            self._process.join(0 if hangs else LEAVE_S)
            self._process.kill()
            self._process.join()
        self._pipe = self._process = None


def _ended(kind: str, executor: str, detail: str) -> Outcome:
    return Outcome("finding", finding=Finding(kind, executor, detail))


def _serve(pipe: Connection, place: Any, precision: str, more: Sequence[str]) -> None:
    """Examine what comes through the pipe; ``place`` always holds the name of the executor that runs."""
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who waits for it ends it
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what torch and dying libraries say
    ours = [_told(one, place) for one in executors(precision, more)]
    pipe.send("ready")
    while True:
        try:
            given = pipe.recv()
        except EOFError:
            return
        place.value = b""
        pipe.send(examine(Graph.from_dict(given), ours))


def _told(one: Executor, place: Any) -> Executor:
    """Return an executor that reports its name before it runs."""

    def run(data: bytes, inputs: Sequence[torch.Tensor]) -> Sequence[Any]:
        place.value = one.name.encode()[:199]
        return one.run(data, inputs)

    return replace(one, run=run)
