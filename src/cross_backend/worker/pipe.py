"""Pipe: lines of a pipe, waited for with a time limit; and who learns at once that its other end is gone."""

from __future__ import annotations

import contextlib
import math
import os
import queue
import select
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import IO

LONGEST_BYTES = 256_000_000
"""A longer line is none of ours, and is not collected to its end."""
_PIECE_BYTES = 1 << 16
_MOST_MS = 1 << 30
"""That a system call waits for; weeks."""


class Lines(ABC):
    """Lines as they come; one thread takes them."""

    @abstractmethod
    def take(self, timeout_s: float) -> bytes:
        """Return the next line with its end; one without where it is too long, an empty one where no more come.

        Raises:
            TimeoutError: none came in time.
        """


def lines_of(pipe: IO[bytes], gone: Callable[[], None] | None = None) -> Lines:
    """Return the lines of a pipe.

    Args:
        pipe: nobody else reads it.
        gone: called in a thread of its own as soon as nobody can write any longer, whatever else is going on.
    """
    return _Polled(pipe, gone) if hasattr(select, "poll") else _Pumped(pipe, gone)


class _Polled(Lines):
    """Who takes a line waits at the pipe itself: no thread between costs time."""

    def __init__(self, pipe: IO[bytes], gone: Callable[[], None] | None) -> None:
        self._pipe, self._rest = pipe, bytearray()
        self._poll = select.poll()
        self._poll.register(pipe, select.POLLIN)
        if gone is not None:
            threading.Thread(target=self._watch, args=(gone,), daemon=True).start()

    def _watch(self, gone: Callable[[], None]) -> None:
        ends = select.poll()
        ends.register(self._pipe, 0)  # of its end it always tells
        ends.poll()
        gone()

    def take(self, timeout_s: float) -> bytes:
        end, seen = time.monotonic() + timeout_s, 0
        while (length := self._rest.find(b"\n", seen) + 1) == 0 and len(self._rest) < LONGEST_BYTES:
            seen = len(self._rest)
            left_ms = (end - time.monotonic()) * 1e3
            if not self._poll.poll(math.ceil(min(max(0.0, left_ms), _MOST_MS))):
                raise TimeoutError
            piece = b""
            with contextlib.suppress(OSError, ValueError):  # it was closed here
                piece = os.read(self._pipe.fileno(), _PIECE_BYTES)
            if not piece:
                return b""
            self._rest += piece
        line = bytes(self._rest[: length or LONGEST_BYTES])
        del self._rest[: len(line)]
        return line


class _Pumped(Lines):
    """A thread reads: where a pipe cannot be waited for with a time limit, as on Windows."""

    def __init__(self, pipe: IO[bytes], gone: Callable[[], None] | None) -> None:
        self._pipe, self._gone = pipe, gone
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (line := self._pipe.readline(LONGEST_BYTES)).endswith(b"\n"):
                self._lines.put(line)
            if len(line) == LONGEST_BYTES:  # a shorter one was cut off by the other side's end
                self._lines.put(line)
        self._lines.put(b"")
        if self._gone is not None:
            self._gone()

    def take(self, timeout_s: float) -> bytes:
        try:
            return self._lines.get(timeout=max(0.0, min(timeout_s, threading.TIMEOUT_MAX)))
        except queue.Empty:
            raise TimeoutError from None
