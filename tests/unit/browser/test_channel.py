"""The channel: who may take part, what is offered, and how a page that ends is noticed; this test plays the page."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from cross_backend.browser.channel import Channel
from cross_backend.errors import LoadError, RunError


@pytest.fixture
def channel() -> Iterator[Channel]:
    with Channel() as opened:
        yield opened


@pytest.fixture
def connect(channel: Channel) -> Iterator[Callable[[], Client]]:
    """Give a function that makes a client; all end with the test."""
    with contextlib.ExitStack() as stack:

        def make() -> Client:
            client = Client(channel)
            stack.callback(client.close)
            return client

        yield make


class Client:
    """What a browser would send."""

    def __init__(self, channel: Channel) -> None:
        parts = urlsplit(channel.url)
        self.start = parts.path
        self.connection = http.client.HTTPConnection(str(parts.hostname), int(parts.port or 0), timeout=20)
        self.stream: http.client.HTTPResponse | None = None

    def ask(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def listen(self) -> http.client.HTTPResponse:
        self.connection.request("GET", f"{self.start}commands")
        self.stream = self.connection.getresponse()
        return self.stream

    def close(self) -> None:
        if self.stream is not None:
            self.stream.close()
        self.connection.close()


def command(stream: http.client.HTTPResponse) -> dict[str, object]:
    line = stream.readline()
    assert line.startswith(b"data: ") and stream.readline() == b"\n"
    told: dict[str, object] = json.loads(line[6:])
    return told


def test_the_page_and_its_script_are_offered_isolated(channel: Channel, connect: Callable[[], Client]) -> None:
    client = connect()
    client.connection.request("GET", client.start)
    answer = client.connection.getresponse()
    assert answer.status == 200 and b"channel.js" in answer.read()
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert "'unsafe-inline'" not in answer.headers["Content-Security-Policy"]
    status, script = client.ask(f"{client.start}ort_page.js")
    assert status == 200 and b"class OrtModel" in script


@pytest.mark.parametrize(
    "path", ["/", "/channel.js", "/wrong/", "{start}../../etc/passwd", "{start}channel.py", "{start}offered-1"]
)
def test_nothing_else_is_there(channel: Channel, connect: Callable[[], Client], path: str) -> None:
    client = connect()
    assert client.ask(path.format(start=client.start))[0] == 404


def test_another_host_name_is_refused(channel: Channel, connect: Callable[[], Client]) -> None:
    """A page of a stranger whose name was made to lead here (DNS rebinding) says that name."""
    client = connect()
    assert client.ask(client.start, Host="evil.example")[0] == 404
    assert client.ask(f"{client.start}answers/1", "POST", b"{}", Host="evil.example")[0] == 404


def test_an_answer_must_say_how_long_it_is(channel: Channel, connect: Callable[[], Client]) -> None:
    client = connect()
    client.connection.putrequest("POST", f"{client.start}answers/1")
    client.connection.putheader("Content-Length", str(1 << 40))
    client.connection.endheaders()
    assert client.connection.getresponse().status == 413


def test_a_command_its_offer_and_its_answer(channel: Channel, connect: Callable[[], Client]) -> None:
    stream, client, answers = connect().listen(), connect(), []
    channel.wait(lambda: True, 20)
    asking = threading.Thread(target=lambda: answers.append(channel.ask("bind", b"tensors", forget=[])))
    asking.start()
    told = command(stream)
    assert (told["ask"], told["forget"]) == ("bind", [])
    assert client.ask(f"{client.start}{told['url']}") == (200, b"tensors")
    assert client.ask(f"{client.start}answers/999", "POST", b"of another command")[0] == 204
    assert client.ask(f"{client.start}answers/{told['id']}", "POST", b"7")[0] == 204
    asking.join(20)
    assert answers == [b"7"]
    assert client.ask(f"{client.start}{told['url']}")[0] == 404, "what was offered is taken back"


def test_a_failure_is_told_and_a_page_that_ends_is_noticed(channel: Channel, connect: Callable[[], Client]) -> None:
    listening, client, failed = connect(), connect(), []
    stream = listening.listen()

    def ask() -> None:
        with pytest.raises(RunError) as caught:
            channel.ask("run", key=1)
        failed.append(str(caught.value))

    for end in ("failure", "gone"):
        asking = threading.Thread(target=ask)
        asking.start()
        told = command(stream)
        if end == "failure":
            assert client.ask(f"{client.start}failures/{told['id']}", "POST", b"no such operator")[0] == 204
        else:
            listening.close()
        asking.join(20)
    assert failed[0] == "no such operator" and "page crashed or was closed" in failed[1]


def test_a_browser_that_ends_before_it_came_is_not_waited_for(channel: Channel) -> None:
    with pytest.raises(LoadError, match="ended before"):
        channel.wait(lambda: False, 60)
    with pytest.raises(LoadError, match="within 0 s"):
        channel.wait(lambda: True, 0)
