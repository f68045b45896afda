"""Bodies of requests: on disk until they are whole, and few of them in memory at once.

Requests that never finish cost disk, within a bound, and no memory.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import Message, Receive

BODY_S = 30.0
"""Longest time that a body may take to arrive."""
SMALL_BYTES = 1 << 20
"""Longest body that stays in memory while it arrives."""
MAX_TOTAL_BYTES = 1 << 30
"""Of all bodies of requests that are not answered yet."""
MAX_LARGE = 3
"""Bodies beyond ``SMALL_BYTES`` that are worked on at once; others wait for their turn on disk."""


class RefusedError(Exception):
    """A request is not answered; the arguments are the status and one line."""


class Bodies:
    """All bodies that arrive at a server."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        """Longest body of one request."""
        self._total = 0
        self._turns = asyncio.Semaphore(MAX_LARGE)

    @asynccontextmanager
    async def whole(self, receive: Receive) -> AsyncIterator[Receive]:
        """Wait for a body, and yield what hands it on: first the body, then whatever follows it.

        Raises:
            RefusedError: it is too long, takes too long, or there are too many.
        """
        with tempfile.SpooledTemporaryFile(SMALL_BYTES) as file:
            try:
                left = await self._arrived(receive, file)
                if file.tell() <= SMALL_BYTES:
                    yield _replaying(file, left, receive)
                else:
                    async with self._turns:
                        yield _replaying(file, left, receive)
            finally:
                self._total -= file.seek(0, 2)

    async def _arrived(self, receive: Receive, file: IO[bytes]) -> Message | None:
        """Write a body to a file; return the message that said that the client left, if one did."""
        end = asyncio.get_running_loop().time() + BODY_S
        while True:
            try:
                async with asyncio.timeout_at(end):
                    message = await receive()
            except TimeoutError:
                raise RefusedError(408, f"the request took longer than {BODY_S:.0f} s to arrive.") from None
            if message["type"] != "http.request":
                return message
            piece = message.get("body", b"")
            if file.tell() + len(piece) > self.max_bytes:
                raise RefusedError(413, f"the request is larger than {self.max_bytes >> 20} MiB.")
            if self._total + len(piece) > MAX_TOTAL_BYTES:
                raise RefusedError(503, "too many requests arrive at once; try again in a minute.")
            try:
                file.write(piece)
            except OSError as error:
                reason = error.strerror or error
                raise RefusedError(503, f"{tempfile.gettempdir()} cannot hold the request ({reason}).") from error
            self._total += len(piece)
            if not message.get("more_body", False):
                return None


def _replaying(file: IO[bytes], left: Message | None, receive: Receive) -> Receive:
    was_read = False

    async def replay() -> Message:
        nonlocal was_read
        if left is not None:
            return left
        if was_read:
            return await receive()  # the end of the connection, for which an answer may wait as long as it likes
        was_read = True
        file.seek(0)
        return {"type": "http.request", "body": file.read(), "more_body": False}

    return replay
