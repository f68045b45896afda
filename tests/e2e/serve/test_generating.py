"""Text that streams: the API's events, and a page in a real browser whose cards write side by side."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
from urllib.parse import urlencode

import pytest

from cross_backend.web.guard import TOKEN_HEADER
from tests.browser import chromium
from tests.e2e.serve.conftest import serving
from tests.e2e.serve.visits import figures, visiting
from tests.e2e.test_cli_run_prompt import MODEL, byte_tokenizer, reference

pytestmark = pytest.mark.slow
TEXT = "the thing"
NEW = 12


@pytest.fixture(scope="module")
def folder(cli, tmp_path_factory):
    """Give a decoder on two backends, with its tokenizer."""
    folder = tmp_path_factory.mktemp("decoder")
    done = cli("export", MODEL, "--backends", "torch", "onnxruntime", "--strict", "--output-dir", folder)
    assert done.returncode == 0, done.stderr
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


@pytest.fixture(scope="module")
def writing(folder, linear, db):
    with serving([folder, linear], db) as served:
        yield served


@pytest.fixture(scope="module")
def visit(writing):
    with chromium() as browser, visiting(browser, writing) as go:
        yield go


@pytest.fixture(scope="module")
def wanted():
    ids = byte_tokenizer().encode(TEXT).ids
    return byte_tokenizer().decode(reference(ids, NEW))


def name_of(served) -> str:
    (found,) = [one["name"] for one in served.get("/api/models")["models"] if one["kind"] == "prompt"]
    return str(found)


@contextlib.contextmanager
def answering(served, keys, prompt, **asked):
    """Give the response to a prompt."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
    query = urlencode([*(("artifact", key) for key in keys), *asked.items()])
    headers = {TOKEN_HEADER: served.state.access.page_token, "content-type": "text/plain"}
    try:
        connection.request("POST", f"/api/generate?{query}", prompt, headers)
        yield connection.getresponse()
    finally:
        connection.close()


def events_of(response):
    """Give the events as they come, as (name, facts)."""
    name = ""
    while line := response.readline().decode():
        if line.startswith("event: "):
            name = line.removeprefix("event: ").strip()
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_backends_take_turns_token_by_token(writing, wanted):
    keys = list(writing.keys(name_of(writing)).values())
    with answering(writing, keys, TEXT, new=NEW) as response:
        assert response.status == 200 and response.headers["content-type"].startswith("text/event-stream")
        found = list(events_of(response))
    tokens = [facts for name, facts in found if name == "token"]
    assert [one["artifact"] for one in tokens[:4]] == keys * 2 and len(tokens) == 2 * NEW
    for key in keys:
        assert "".join(one["text"] for one in tokens if one["artifact"] == key) == wanted
    begun = [facts for name, facts in found if name == "begin"]
    assert [one["new"] for one in begun] == [NEW, NEW] and all(one["proof"]["verdict"] for one in begun)
    assert found[-1] == ("done", {"caveats": ["The model's weights are random: its answer means nothing."]})


def test_a_reader_who_leaves_ends_it_and_the_next_text_begins_at_the_start(writing, wanted):
    key = writing.keys(name_of(writing))["torch.eager"]
    with answering(writing, [key], "a", new=29) as response:
        assert next(events_of(response))[0] == "begin"
    with answering(writing, [key], TEXT, new=NEW) as response:
        assert "".join(facts["text"] for name, facts in events_of(response) if name == "token") == wanted


def test_a_crash_ends_one_text_only(writing, wanted):
    keys = writing.keys(name_of(writing))
    first, other = keys["torch.eager"], keys["onnxruntime.cpu"]
    with answering(writing, [first, other], TEXT, new=NEW) as response:
        found = []
        for name, facts in events_of(response):
            found.append((name, facts))
            if len(found) == 4:
                os.kill(writing.state.benches.pid(first), signal.SIGKILL)
    ended = {facts["artifact"]: facts for name, facts in found if name == "end"}
    assert ended[first]["outcome"] in {"CRASH", "OK"} and ended[other]["outcome"] == "OK"
    assert "".join(f["text"] for name, f in found if name == "token" and f["artifact"] == other) == wanted


@pytest.mark.parametrize(
    ("prompt", "asked", "reason"),
    [
        ("a" * 32, {}, "the prompt has 32 tokens, and the model's caches hold 32"),
        ("abc", {"new": "30"}, "Ask for at most 29 new tokens"),
        ("abc", {"new": "0"}, "is no number of tokens"),
        (" ", {}, "the prompt is empty"),
        (b"\xff", {}, "no text in UTF-8"),
    ],
)
def test_what_cannot_be_continued_is_one_line(writing, prompt, asked, reason):
    key = writing.keys(name_of(writing))["torch.eager"]
    with answering(writing, [key], prompt, **asked) as response:
        assert response.status == 400 and reason in json.loads(response.read())["error"]


def test_a_model_that_does_not_generate_is_refused(writing):
    key = next(iter(writing.keys("linear_regression").values()))
    with answering(writing, [key], TEXT) as response:
        assert response.status == 400
        assert "linear_regression does not generate" in json.loads(response.read())["error"]


def test_two_cards_write_side_by_side(visit, writing, wanted):
    keys = writing.keys(name_of(writing)).values()
    page = visit(f"/?{urlencode([('model', name_of(writing)), *(('on', key) for key in keys)])}")
    page.fill("#text", TEXT)
    page.fill("#new", str(NEW))
    page.evaluate("""() => {
      window.seen = [];
      new MutationObserver(() => {
        window.seen.push([...document.querySelectorAll(".written")].map((one) => one.textContent.length));
      }).observe(document.getElementById("cards"), { subtree: true, childList: true, characterData: true });
    }""")
    page.click("#generate")
    page.locator("#said", has_text="weights are random").wait_for(timeout=60_000)
    cards = page.locator(".card")
    assert cards.count() == 2
    for index in range(2):
        card = cards.nth(index)
        assert card.locator(".stream .prompt").text_content() == TEXT
        assert card.locator(".written").text_content() == wanted
        told = figures(page, index)
        assert told["tokens"] == str(NEW) and float(told["tokens/s"]) > 0
        assert told["first token"].endswith(" ms") and told["memory"].endswith(" MB")
        assert "Verified on the sample input" in card.locator(".proof").text_content()
        assert len(card.locator("svg.live polyline").get_attribute("points").split()) == NEW - 1
    both = [pair for pair in page.evaluate("window.seen") if len(pair) == 2 and min(pair) > 0]
    assert any(max(pair) < len(wanted) for pair in both), "both texts grow at the same time"
    assert page.is_enabled("#generate") and page.is_disabled("#stop")


def test_a_text_is_stopped_and_a_wrong_prompt_is_told(visit, writing):
    page = visit(f"/?model={name_of(writing)}")
    page.fill("#text", "a" * 40)
    page.click("#generate")
    page.locator("#said", has_text="the prompt has 40 tokens").wait_for(timeout=60_000)
    page.said.clear()  # the browser itself tells of status 400
    page.fill("#text", TEXT)
    page.fill("#new", "20")
    page.route("**/api/generate**", lambda route: None)  # an answer that never comes
    page.click("#generate")
    page.click("#stop")
    page.locator("#said", has_text="Stopped.").wait_for(timeout=60_000)
    assert page.is_enabled("#generate")
