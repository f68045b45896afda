"""Guard: what every request passes first: Host, origin, token, bounds of the body; and the headers of every answer.

A page of somebody else's, open in the same browser, may send requests to this machine. A foreign name that resolves to
this machine is refused by its Host header, a form or a script of another site by its origin and by the page's token,
which only our own pages can read.
"""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from cross_backend.web.bodies import Bodies, RefusedError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 33 << 20
"""Of a request: one picture or sound, and some fields."""
COOKIE = "cross_backend_access"
TOKEN_HEADER = "X-Cross-Backend-Token"  # noqa: S105  a header's name
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_OPEN_TO_ALL = frozenset({"/healthz"})
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(:(?P<port>\d{1,5}))?")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src blob:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(self), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
"""Of every answer that does not say otherwise."""
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True)
class Access:
    """Who may ask."""

    token: str | None = None
    """What everybody must show who asks; None where only this machine can ask."""
    names: frozenset[str] = frozenset()
    """Names of this machine by which it may be asked, beside addresses and localhost."""
    page_token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """What our own pages show with every request that changes something."""

    def knows(self, host: str) -> bool:
        """Whether a Host header names this machine; no name of others can be made to resolve to an address."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower().removeprefix("[").removesuffix("]")
        if name == "localhost" or name in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.token is not None

    def admits(self, shown: str | None) -> bool:
        """Whether a token that was shown is the right one, or none is asked for."""
        return self.token is None or _same(shown, self.token)


def _same(shown: str | None, wanted: str) -> bool:
    return shown is not None and secrets.compare_digest(shown.encode(), wanted.encode())


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, access: Access, max_body_bytes: int = MAX_BODY_BYTES) -> None:
        self.app, self.access = app, access
        self.bodies = Bodies(max_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or hand it on with bounds."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there is no WebSocket here
            await send({"type": "websocket.close", "code": 1000})
            return
        headers = _decoded(scope)
        sender = _with_headers(send)
        try:
            self._check_host(headers)
            if await self._redirected(scope, sender):
                return
            self._check_access(scope, headers)
            if scope["method"] not in _SAFE:
                self._check_origin(headers)
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > self.bodies.max_bytes:
                raise RefusedError(413, f"the request is larger than {self.bodies.max_bytes >> 20} MiB.")
        except RefusedError as refused:
            await _answer(sender, *refused.args)
            return
        began = False

        async def watched(message: Message) -> None:
            nonlocal began
            began = True
            await sender(message)

        try:
            async with self.bodies.whole(receive) as whole:
                await self.app(scope, whole, watched)
        except RefusedError as refused:
            if began:  # an answer is on its way: all that is left is to break it off
                raise
            await _answer(sender, *refused.args)

    def _check_host(self, headers: dict[str, str]) -> None:
        host = headers.get("host", "")
        if not self.access.knows(host):
            raise RefusedError(421, "this name is not one of this machine's; ask for it as 127.0.0.1 or localhost.")

    def _check_access(self, scope: Scope, headers: dict[str, str]) -> None:
        if scope["path"] in _OPEN_TO_ALL:
            return
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        shown = bearer.strip() if scheme.lower() == "bearer" else _cookie(headers)
        if not self.access.admits(shown):
            raise RefusedError(401, "show the token that the server was started with: open /?token=… once.")

    def _check_origin(self, headers: dict[str, str]) -> None:
        """Refuse what another site sends, and what does not show the page's token (or the server's)."""
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise RefusedError(403, "requests of other sites change nothing here.")
        if headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
            raise RefusedError(403, "requests of other sites change nothing here.")
        shown = headers.get(TOKEN_HEADER.lower())
        bearer = headers.get("authorization", "").partition(" ")[2].strip()
        if self.access.token is not None and _same(bearer, self.access.token):
            return
        if not _same(shown, self.access.page_token):
            raise RefusedError(403, f"the header {TOKEN_HEADER} is missing or wrong; GET /api/token returns it.")

    async def _redirected(self, scope: Scope, send: Send) -> bool:
        """Turn ``?token=…`` into a cookie that no script and no other site can use; whether that was done."""
        if self.access.token is None or scope["method"] != "GET":
            return False
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = dict(query).get("token")
        if not _same(shown, self.access.token):
            return False
        rest = urlencode([(key, value) for key, value in query if key != "token"])
        place = "/" + quote(scope["path"].lstrip("/")) + (f"?{rest}" if rest else "")
        cookie = f"{COOKIE}={shown}; HttpOnly; SameSite=Strict; Path=/"
        await _answer(send, 303, "", [("location", place), ("set-cookie", cookie)])
        return True


def _decoded(scope: Scope) -> dict[str, str]:
    """Return the headers; one that comes twice is refused where it decides, so its texts are joined."""
    found: dict[str, str] = {}
    for raw, value in scope["headers"]:
        name, text = raw.decode("latin-1").lower(), value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


def _cookie(headers: dict[str, str]) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def _with_headers(send: Send) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            more = [row for row in _RAW_HEADERS if row[0] not in names]
            if b"cache-control" not in names:
                more.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*given, *more]}
        await send(message)

    return sender


async def _answer(send: Send, status: int, text: str, headers: list[tuple[str, str]] | None = None) -> None:
    body = json.dumps({"error": text}).encode() if text else b""
    rows = [("content-type", "application/json"), ("content-length", str(len(body))), *(headers or [])]
    if status in {408, 413, 503}:  # what still arrives is not read
        rows.append(("connection", "close"))
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in rows]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
