"""Every page is readable, named, small, and fits a phone, in light and dark."""

import contextlib

import pytest

from tests.browser import CONTRAST, DESK, PHONE
from tests.e2e.serve.conftest import TARGETS
from tests.e2e.serve.test_api import HISTORY
from tests.e2e.serve.visits import AXE, UNNAMED, axe_source

MOST_BYTES = 300_000
"""Of the first page, with all that it asks for."""
FOLLOWED = HISTORY.replace("/api/studies", "/results") + TARGETS[1]
PAGES = [
    "/?model=digits_cnn",
    "/?model=linear_regression",
    "/results",
    "/results/3",
    "/matrix",
    FOLLOWED,
    "/results/diff?before=1&after=3",
    "/artifacts",
    "/guides/reading",
    "/artifacts/{key}?open=0",
    "/no-such-page",
]


@pytest.mark.slow
def test_every_page_is_readable_named_and_fits_a_phone_in_light_and_dark(visit, served):
    """By our own looks, and by axe where npm can bring it; one page of one browser goes everywhere."""
    axe = axe_source()
    page, key = visit("/results", viewport=PHONE, reduced_motion="reduce"), served.keys("digits_cnn")[TARGETS[0]]
    for path in PAGES:
        page.goto(served.url + path.format(key=key))
        if path.startswith("/?"):
            page.click("#sample")
            page.locator(".card .overlay dd", has_text="MB").first.wait_for(timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], path
        assert page.evaluate(UNNAMED) == [], path
        assert page.locator("h1").count() == 1 and page.get_attribute("html", "lang") == "en", path
        page.evaluate(axe)  # by the debugger's protocol, which the page's policy does not bind
        for scheme, rules in (("light", None), ("dark", ["color-contrast"])):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            low = {kind: ratio for kind, ratio in page.evaluate(CONTRAST).items() if ratio < 4.5}
            assert low == {}, (path, scheme)
            assert not axe or page.evaluate(AXE, rules) == [], (path, scheme)
    page.evaluate("document.querySelector('main').append(document.createElement('input'))")
    assert not axe or page.evaluate(AXE, None)[0].startswith("label:"), "it sees a barrier where there is one"
    page.said[:] = [text for text in page.said if "404" not in text]  # of the page that was asked for in vain


def test_the_first_page_is_small_and_soon_there(browser, served):
    with contextlib.closing(browser.new_context(viewport=DESK)) as context:
        page, sizes = context.new_page(), []
        page.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0))))
        page.goto(f"{served.url}/?model=digits_cnn", wait_until="load")
        assert len(sizes) >= 6 and 10_000 < sum(sizes) <= MOST_BYTES
