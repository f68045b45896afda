"""Pages in the language that a browser asks for, over HTTP and in a real one; English by default."""

import re

import pytest

from tests.browser import PHONE
from tests.e2e.serve.conftest import TARGETS
from tests.e2e.serve.test_readable import FOLLOWED
from tests.e2e.serve.visits import UNNAMED, tick

GERMAN = {"locale": "de-DE"}


def asked(served, path, accepted=None):
    status, headers, body = served.ask("GET", path, headers={} if accepted is None else {"Accept-Language": accepted})
    text = body.decode()
    assert headers["content-type"] == "text/html; charset=utf-8"
    return status, re.search('<html lang="([^"]*)">', text)[1], text


def test_a_page_is_german_for_who_asks_for_it_and_english_by_default(served):
    status, language, text = asked(served, "/?model=digits_cnn", "de-DE,de;q=0.9,en;q=0.5")
    assert (status, language) == (200, "de")
    for shown in (">Ergebnisse</a>", ">Ausführen</button>", "Zeichne eine Ziffer, oder führe die Beispieleingabe aus."):
        assert shown in text
    status, language, text = asked(served, "/?model=digits_cnn")
    assert (status, language) == (200, "en")
    assert ">Results</a>" in text and ">Run</button>" in text and 'id="texts"' not in text


@pytest.mark.parametrize(
    "accepted",
    [
        "fr",
        "tlh,fr;q=0.8",
        "*",
        "en-GB,de;q=0.9",
        "../de",
        "de;q=x",
        'de"><script>alert(1)</script>',
        "\xe4\xff",
        "," * 20_000,
    ],
)
def test_any_other_header_is_answered_in_english(accepted, served):
    status, language, text = asked(served, "/results", accepted)
    assert (status, language) == (200, "en") and "<h1>Results</h1>" in text and "alert(1)" not in text


def test_the_api_and_reasons_stay_english(served):
    accepted = {"Accept-Language": "de", "Accept": "text/html"}
    plain, german = (served.ask("GET", "/api/studies", headers=headers)[2] for headers in ({}, accepted))
    assert plain == german
    status, _, body = served.ask("GET", "/guides/none", headers=accepted)
    text = body.decode()
    assert (
        status == 404 and "Das lässt sich nicht anzeigen" in text and 'role="alert" lang="en">there is no guide' in text
    )


def test_what_the_scripts_say_is_german_too(visit):
    page = visit("/?model=digits_cnn", **GERMAN)
    tick(page)
    page.click("#run")
    page.get_by_text("Wähle ein Backend.").wait_for()
    tick(page, "ONNX Runtime (CPU)")
    page.click("#sample")
    page.locator(".overlay dd", has_text="MB").first.wait_for(timeout=60_000)
    assert page.locator(".overlay dt").all_inner_texts()[:3] == ["Inferenz", "Vorverarbeitung", "Nachverarbeitung"]
    assert re.search(r"· geladen in [\d.]+ ms$", page.inner_text(".proof"))
    assert page.locator(".overlay").get_attribute("aria-label") == "Leistung von ONNX Runtime (CPU)"
    page.goto(page.url.partition("?")[0] + "results/3")
    chooser = page.locator("details.columns").first
    assert chooser.locator("summary").inner_text() == "Spalten"
    chooser.locator("summary").click()
    chooser.get_by_label("size").uncheck()
    assert not page.locator("table.ranking td[data-header=size]").first.is_visible()
    chapters = page.locator("main > [lang=en]")
    assert chapters.count() == 1 and chapters.locator("h2").first.inner_text() == "Summary"


def test_german_pages_fit_a_phone(visit, served):
    page, key = visit("/results", viewport=PHONE, **GERMAN), served.keys("digits_cnn")[TARGETS[0]]
    for path in (
        *("/?model=digits_cnn", "/?model=linear_regression", "/results", "/results/3", "/matrix", FOLLOWED),
        *("/results/diff?before=1&after=3", "/artifacts", f"/artifacts/{key}", "/guides/reading"),
    ):
        page.goto(served.url + path)
        assert page.get_attribute("html", "lang") == "de" and page.evaluate(UNNAMED) == [], path
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert "Ergebnisse" in page.inner_text(".menu"), path
