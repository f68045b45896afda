"""Channel: a server on the loopback whose page a browser opens, and the commands and answers between the two.

Commands go to the page as server-sent events over one connection, which is open as long as the page lives; answers come
back as requests. All of it lies under a secret path, so that no other page or user of this machine can take part.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import queue
import secrets
import selectors
import shutil
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from cross_backend.browser.assets import ISOLATION, POLICY, UNKNOWN, channel_files, content_type
from cross_backend.errors import LoadError, RunError

_LOOK_S = 0.25
"""How often is looked whether the page is still there."""
_MOST_ANSWER_BYTES = 4 << 30


class Channel:
    """One page, which answers one command at a time."""

    def __init__(self) -> None:
        self._files = channel_files()
        self._offered: dict[str, Path | bytes] = {}
        self._commands: queue.Queue[str] = queue.Queue()
        self._answers: queue.Queue[tuple[int, bool, bytes]] = queue.Queue()
        self._numbers = itertools.count(1)
        self._turn = threading.Lock()
        self._connected, self._gone = threading.Event(), threading.Event()
        self._secret = secrets.token_urlsafe(24)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._host = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{self._host}/{self._secret}/"

    def wait(self, is_running: Callable[[], bool], timeout_s: float) -> None:
        """Wait until the page is there; time in which this process was stopped does not count.

        Raises:
            LoadError: the browser ended, or the time is over.
        """
        for _ in range(math.ceil(timeout_s / _LOOK_S)):
            if self._connected.wait(_LOOK_S):
                return
            if not is_running():
                raise LoadError("the browser ended before it opened its page")
        raise LoadError(f"the browser did not open its page within {timeout_s:.0f} s")

    def ask(self, command: str, offered: Path | bytes | None = None, **told: Any) -> bytes:
        """Give the page a command, wait for its end, and return the answer.

        Args:
            command: one of ``channel.js``.
            offered: what the page fetches for it, from the address in ``url``.
            told: the command's own arguments.

        Raises:
            RunError: it failed, with the page's words; or the page is gone.
        """
        with self._turn:
            number = next(self._numbers)
            name = f"offered-{number}"
            if offered is not None:
                self._offered[name] = offered
                told["url"] = name
            self._commands.put(json.dumps({"id": number, "ask": command, **told}))
            try:
                return self._answer_to(number)
            finally:
                self._offered.pop(name, None)

    def _answer_to(self, number: int) -> bytes:
        while True:
            with contextlib.suppress(queue.Empty):
                answered, is_right, body = self._answers.get(timeout=_LOOK_S)
                if answered != number:  # of a command whose caller was interrupted
                    continue
                if is_right:
                    return body
                raise RunError(body.decode(errors="replace").strip() or "the page failed without a reason")
            if self._gone.is_set():
                raise RunError("the browser's page crashed or was closed; it may have had too little memory")

    def close(self) -> None:
        """End the server; the page's connection ends, too."""
        self._gone.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- The server's side

    def within(self, path: str, host: str | None) -> str | None:
        """Return what a request asks for under the secret path; None where it is none of the page's."""
        start = f"/{self._secret}/"
        if host != self._host or not secrets.compare_digest(path[: len(start)].encode(), start.encode()):
            return None
        return path[len(start) :]

    def file(self, name: str) -> Path | bytes | None:
        """Return what lies under a name: one of few, never a path."""
        return self._files.get(name) or self._offered.get(name)

    def stream(self, request: BaseHTTPRequestHandler) -> None:
        """Send commands until either side ends."""
        if self._connected.is_set():  # one page only; a browser connects again by itself where it was cut off
            request.send_error(HTTPStatus.GONE)
            return
        request.send_response(HTTPStatus.OK)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Cache-Control", "no-store")
        request.end_headers()
        request.wfile.flush()
        request.close_connection = True
        self._connected.set()
        with contextlib.suppress(OSError), selectors.DefaultSelector() as watched:
            watched.register(request.connection, selectors.EVENT_READ)
            while not watched.select(0) and not self._gone.is_set():  # the page says nothing here but its end
                with contextlib.suppress(queue.Empty):
                    request.wfile.write(f"data: {self._commands.get(timeout=_LOOK_S)}\n\n".encode())
                    request.wfile.flush()
        self._gone.set()

    def take(self, kind: str, number: int, body: bytes) -> None:
        """Keep what the page answered."""
        self._answers.put((number, kind == "answers", body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a browser that ends cuts its connections off."""


def _handler(channel: Channel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_GET(self) -> None:
            name = channel.within(self.path, self.headers.get("Host"))
            if name == "commands":
                channel.stream(self)
                return
            found = None if name is None else channel.file(name)
            if found is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", content_type(found) if isinstance(found, Path) else UNKNOWN)
            self.send_header("Content-Length", str(found.stat().st_size if isinstance(found, Path) else len(found)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("Content-Security-Policy", POLICY)
            for key, value in ISOLATION.items():
                self.send_header(key, value)
            self.end_headers()
            if isinstance(found, Path):
                with found.open("rb") as file:
                    shutil.copyfileobj(file, self.wfile, 1 << 20)
            else:
                self.wfile.write(found)

        def do_POST(self) -> None:
            name = channel.within(self.path, self.headers.get("Host"))
            kind, _, number = (name or "").partition("/")
            size = self.headers.get("Content-Length", "")
            if kind not in {"answers", "failures"} or not number.isdecimal() or not size.isdecimal():
                self.close_connection = True
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            if int(size) > _MOST_ANSWER_BYTES:
                self.close_connection = True
                self.send_error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                return
            body = self.rfile.read(int(size))
            self.send_response(HTTPStatus.NO_CONTENT)
            self.end_headers()
            self.wfile.flush()
            channel.take(kind, int(number), body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler
