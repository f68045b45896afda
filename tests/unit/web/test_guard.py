"""Guard: other sites, other names, strangers, and what is too much or too slow are refused before the application."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest

from cross_backend.web import bodies, guard
from cross_backend.web.guard import TOKEN_HEADER, Access, Guard

PAGE = "page-token"
HOST = "127.0.0.1:8765"


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Read the whole body, then tell its length."""
    length, more = 0, True
    while more:
        message = await receive()
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(length).encode()})


class Asked:
    """What came back."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.status: int = messages[0]["status"]
        self.headers = {k.decode(): v.decode() for k, v in messages[0]["headers"]}
        self.body = b"".join(message.get("body", b"") for message in messages[1:])


def ask(
    method: str = "GET",
    path: str = "/",
    headers: dict[str, str] | None = None,
    access: Access | None = None,
    *,
    body: tuple[bytes, ...] = (b"",),
    ends: bool = True,
    limit: int = 100,
) -> Asked:
    """Send one request through the guard; a body that does not end is one of somebody who waits."""
    given = {"host": HOST, **(headers or {})}
    place, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": place,
        "query_string": query.encode(),
        "headers": [(k.lower().encode(), v.encode()) for k, v in given.items()],
    }
    left = list(body)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.sleep(60)
        piece = left.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(left) or not ends}

    messages: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        messages.append(message)

    asyncio.run(Guard(_app, access or Access(page_token=PAGE), limit)(scope, receive, send))
    return Asked(messages)


@pytest.mark.parametrize("host", ["127.0.0.1:8765", "localhost", "LOCALHOST:1", "[::1]:8765", "127.8.9.1"])
def test_this_machine_may_be_asked_by_its_own_names(host: str) -> None:
    assert ask(headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8765",
        "10.0.0.7",
        "",
        "a b",
        "127.0.0.1:8765, x",
    ],
)
def test_names_of_others_are_refused_although_they_lead_here(host: str) -> None:
    answer = ask(headers={"host": host})
    assert answer.status == 421 and b"127.0.0.1" in answer.body


def test_beyond_this_machine_addresses_and_its_own_name_are_known() -> None:
    access = Access("secret-token", frozenset({"bench-7"}), PAGE)
    shown = {"authorization": "Bearer secret-token"}
    assert ask(headers={"host": "10.0.0.7:80", **shown}, access=access).status == 200
    assert ask(headers={"host": "bench-7", **shown}, access=access).status == 200
    assert ask(headers={"host": "bench-8", **shown}, access=access).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {TOKEN_HEADER: "guessed"},
        {TOKEN_HEADER: "päge-token"},
        {TOKEN_HEADER: PAGE, "origin": "http://evil.example"},
        {TOKEN_HEADER: PAGE, "origin": "null"},
        {TOKEN_HEADER: PAGE, "origin": "http://127.0.0.1:9999"},
        {TOKEN_HEADER: PAGE, "sec-fetch-site": "cross-site"},
        {TOKEN_HEADER: PAGE, "sec-fetch-site": "same-site"},
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "MADE-UP"])
def test_other_sites_change_nothing(method: str, headers: dict[str, str]) -> None:
    assert ask(method, headers=headers).status == 403


def test_our_own_page_may() -> None:
    headers = {TOKEN_HEADER: PAGE, "origin": f"http://{HOST}", "sec-fetch-site": "same-origin"}
    assert ask("POST", headers=headers, body=(b"abc", b"de")).body == b"5"


ACCESS = Access("secret-token", page_token=PAGE)


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"authorization": "Basic secret-token"}])
def test_who_shows_no_token_sees_nothing_but_that_it_lives(headers: dict[str, str]) -> None:
    assert ask(path="/api/models", headers=headers, access=ACCESS).status == 401
    assert ask(path="/healthz", headers=headers, access=ACCESS).status == 200


def test_the_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read() -> None:
    answer = ask(path="/results?find=a&token=secret-token", access=ACCESS)
    assert (answer.status, answer.headers["location"]) == (303, "/results?find=a")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert ask(path="/results", headers={"cookie": cookie.partition(";")[0]}, access=ACCESS).status == 200
    assert ask(path="//evil.example/?token=secret-token", access=ACCESS).headers["location"] == "/evil.example/"
    assert ask(path="/?token=wrong", access=ACCESS).status == 401


def test_with_a_cookie_alone_nothing_is_changed() -> None:
    cookie = {"cookie": f"{guard.COOKIE}=secret-token"}
    assert ask("POST", headers=cookie, access=ACCESS).status == 403
    assert ask("POST", headers={"authorization": "Bearer secret-token"}, access=ACCESS).status == 200


@pytest.mark.parametrize("length", ["101", "-1", "1e9", "x", "5, 5"])
def test_a_length_that_is_too_much_is_refused_before_a_byte_is_read(length: str) -> None:
    headers = {TOKEN_HEADER: PAGE, "content-length": length}
    assert ask("POST", headers=headers, body=(), limit=100).status == 413


def test_a_body_without_a_length_is_counted() -> None:
    headers = {TOKEN_HEADER: PAGE, "transfer-encoding": "chunked"}
    assert ask("POST", headers=headers, body=(b"x" * 60, b"y" * 40), limit=100).body == b"100"
    answer = ask("POST", headers=headers, body=(b"x" * 60, b"y" * 41), limit=100)
    assert answer.status == 413 and json.loads(answer.body)["error"]


def test_a_body_that_does_not_arrive_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.05)
    assert ask("POST", headers={TOKEN_HEADER: PAGE}, body=(b"x",), ends=False).status == 408


PIECE = 256 << 10
POST = {
    "type": "http",
    "method": "POST",
    "path": "/",
    "query_string": b"",
    "headers": [(b"host", HOST.encode()), (TOKEN_HEADER.lower().encode(), PAGE.encode())],
}
"""A request of our own page."""


def test_bodies_that_do_not_end_are_on_disk_and_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 unfinished posts of 33 MiB took 812 MB of memory."""
    monkeypatch.setattr(bodies, "BODY_S", 1.0)
    monkeypatch.setattr(bodies, "MAX_TOTAL_BYTES", 64 << 20)
    guarded = Guard(_app, Access(page_token=PAGE), 9 << 20)

    async def one() -> int:
        left = (8 << 20) // PIECE

        async def receive() -> dict[str, Any]:
            nonlocal left
            if not left:
                await asyncio.sleep(60)
            left -= 1
            await asyncio.sleep(0)
            return {"type": "http.request", "body": bytes(PIECE), "more_body": True}

        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        await guarded(POST, receive, send)
        return int(messages[0]["status"])

    async def many() -> list[int]:
        return await asyncio.gather(*(one() for _ in range(24)))

    tracemalloc.start()
    statuses = asyncio.run(many())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert set(statuses) == {408, 503}, statuses
    assert peak < 24 * bodies.SMALL_BYTES * 2 + (10 << 20), f"{peak >> 20} MiB"
    assert guarded.bodies._total == 0


def test_few_large_bodies_are_in_memory_at_once() -> None:
    held = most = 0

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        nonlocal held, most
        message = await receive()
        held += 1
        most = max(most, held)
        await asyncio.sleep(0.02)
        held -= 1
        await _app({}, _given(message), send)

    def _given(message: Any) -> Any:
        async def again() -> Any:
            return message

        return again

    guarded, statuses = Guard(app, Access(page_token=PAGE), 3 << 20), []

    async def one() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": bytes(2 << 20), "more_body": False}

        async def send(message: Any) -> None:
            statuses.append(message.get("status", message.get("body")))

        await guarded(POST, receive, send)

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(9)))

    asyncio.run(many())
    assert sorted(map(str, statuses)) == sorted([*["200"] * 9, *[str(str(2 << 20).encode())] * 9])
    assert most == bodies.MAX_LARGE


def test_a_client_that_leaves_is_told_to_the_application() -> None:
    told = []

    async def app(_scope: Any, receive: Any, _send: Any) -> None:
        told.append(await receive())

    pieces = iter([
        {"type": "http.request", "body": b"x", "more_body": True}, {"type": "http.disconnect"}])  # fmt: skip

    async def receive() -> Any:
        return next(pieces)

    async def send(_message: Any) -> None:
        raise AssertionError("nobody listens")

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", HOST.encode())]}
    asyncio.run(Guard(app, Access(page_token=PAGE), 100)(scope, receive, send))
    assert told == [{"type": "http.disconnect"}]


def test_every_answer_forbids_foreign_scripts_and_frames() -> None:
    for answer in (ask(), ask(headers={"host": "evil.example"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
