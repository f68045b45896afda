"""Turns: a lock of threads that comes to each in the order in which they asked for it."""

from __future__ import annotations

import threading
from collections import deque


class Turns:
    """Used in ``with``; Python's own lock may repeatedly go to who came last."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False

    def __len__(self) -> int:
        """Return how many wait."""
        with self._guard:
            return len(self._waiting)

    def __enter__(self) -> None:
        with self._guard:
            if not self._is_taken:
                self._is_taken = True
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def __exit__(self, *_: object) -> None:
        with self._guard:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
