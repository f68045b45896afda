"""Server: the application on a socket of this machine, until it is interrupted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cross_backend.errors import UsageError

if TYPE_CHECKING:
    from starlette.applications import Starlette

HEAD_S = 20.0
"""Between two looks at a connection: a request whose head takes longer than one to two of these is dropped."""
IDLE_S = 15
"""Longest time between two requests of a connection."""
MAX_HEAD_BYTES = 16 << 10
"""Of a request that comes in pieces."""
GRACE_S = 2
"""How long an answer on its way may take when the server ends."""


class Patient(HttpToolsProtocol):
    """A connection that is not waited for without end (slow-loris), nor for a head without end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look at it from time to time."""
        super().connection_made(transport)
        self._is_in_head = self._is_first_piece = self._was_begun = False
        self._head_bytes = 0
        self._next_look = self.loop.call_later(HEAD_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no longer."""
        self._next_look.cancel()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Count the bytes of a head from its second piece on: how much of the first is of it is not known."""
        super().on_message_begin()
        self._is_in_head = self._is_first_piece = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Begin to work on it."""
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._is_first_piece = False
        super().data_received(data)
        if self._is_in_head and not self._is_first_piece and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request is too long.")

    def _look(self) -> None:
        """Close it if no request ever came, or one was on its way at the last look, too, and still nothing is asked."""
        is_asked = self.cycle is not None and not self.cycle.response_complete
        begun = not is_asked and self.timeout_keep_alive_task is None
        if self.cycle is None or (begun and self._was_begun):
            self.transport.close()
            return
        self._was_begun = begun
        self._next_look = self.loop.call_later(HEAD_S, self._look)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens on a port; any free one where it is 0.

    Raises:
        UsageError: it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named asyncio sends at once; else each answer waits 40 ms for the other side's acknowledgement.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
        found.listen(256)
    except OSError as error:
        found.close()
        raise UsageError(f"cannot listen on {host} port {port} ({error.strerror}); name another --port.") from None
    return found


def server(app: Starlette, ready: Callable[[], None]) -> uvicorn.Server:
    """Return what answers requests; ``ready`` is called as soon as it does, its ``should_exit`` ends it."""

    class Told(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    settings: dict[str, Any] = {
        "http": Patient,
        "ws": "none",
        "log_level": "error",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "timeout_keep_alive": IDLE_S,
        "timeout_graceful_shutdown": GRACE_S,
    }
    return Told(uvicorn.Config(app, **settings))
