"""Server: what the command asks of the socket."""

from __future__ import annotations

import socket

import pytest

from cross_backend.errors import UsageError
from cross_backend.web.server import bound


def test_a_port_is_had_once() -> None:
    first = bound("127.0.0.1", 0)
    try:
        assert first.proto == socket.IPPROTO_TCP, "asyncio would delay what is sent"
        with pytest.raises(UsageError, match="--port"):
            bound("127.0.0.1", first.getsockname()[1])
    finally:
        first.close()
