"""Guard: other sites, other names, strangers, and what is too much or too slow are refused before the application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from cross_backend.web import guard
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
    monkeypatch.setattr(guard, "BODY_S", 0.05)
    assert ask("POST", headers={TOKEN_HEADER: PAGE}, body=(b"x",), ends=False).status == 408


def test_every_answer_forbids_foreign_scripts_and_frames() -> None:
    for answer in (ask(), ask(headers={"host": "evil.example"})):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in answer.headers
