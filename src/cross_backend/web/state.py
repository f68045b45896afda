"""State: what the handlers of one server share."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from anyio import CapacityLimiter

from cross_backend.cache import Cache
from cross_backend.web.benches import Benches
from cross_backend.web.catalogue import Catalogue
from cross_backend.web.counters import Counters
from cross_backend.web.following import Following
from cross_backend.web.guard import Access
from cross_backend.web.localizing import Localizing
from cross_backend.web.shelf import Shelf
from cross_backend.web.studying import Studying
from cross_backend.web.visitor import Tickets

MOST_WAITING = 100
"""Events that a listener may be late by; older ones are lost to it."""
BEAT_S = 15.0
"""Between two signs of life to a listener: a connection that is gone is noticed by them."""

MOST_PLAYING = 2
"""Requests that are worked on at once: one has its turn at a bench, the next one's input is made ready meanwhile."""


class Events:
    """What happens to benches, told to every page that listens."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Queue[str]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.last: deque[str] = deque(maxlen=20)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    def tell(self, event: str, **facts: Any) -> None:
        """Tell all listeners; any thread may."""
        text = f"event: {event}\ndata: {json.dumps(facts)}\n\n"
        self.last.append(text)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._spread, text)

    def _spread(self, text: str) -> None:
        for listener in self._listeners:
            if listener.full():
                listener.get_nowait()
            listener.put_nowait(text)

    async def listen(self) -> AsyncIterator[str]:
        """Yield server-sent events until the listener goes."""
        self._loop = asyncio.get_running_loop()
        mine: asyncio.Queue[str] = asyncio.Queue(MOST_WAITING)
        self._listeners.add(mine)
        try:
            yield "retry: 2000\n\n"
            while True:
                try:
                    yield await asyncio.wait_for(mine.get(), BEAT_S)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(mine)


@dataclass
class State:
    """Of one server."""

    catalogue: Catalogue
    benches: Benches
    shelf: Shelf
    access: Access
    cache: Cache
    studying: Studying
    localizing: Localizing
    following: Following
    counters: Counters = field(default_factory=Counters)
    events: Events = field(default_factory=Events)
    tickets: Tickets = field(default_factory=Tickets)
    playing: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(MOST_PLAYING))
    """The others wait without a thread, first come, first served."""
