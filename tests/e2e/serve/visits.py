"""Visits of a page by a real browser: what is done there, read there, and looked for."""

import contextlib
import re
import shutil

from tests import needs
from tests.browser import DESK
from tests.runtimes import bring

UNNAMED = """() => [...document.querySelectorAll(
    "input, select, textarea, button, canvas, img, svg[role=img], [role=region]")]
  .filter((e) => e.checkVisibility() && !(e.labels?.length || e.getAttribute("aria-label") || e.getAttribute("alt")
    || e.querySelector?.(":scope > title") || (e.tagName === "BUTTON" && e.textContent.trim())))
  .map((e) => e.outerHTML.slice(0, 120))"""
"""What a screen reader could not name."""


@contextlib.contextmanager
def visiting(browser, served):
    """Give a function that opens an address in a fresh profile; what the page says or asks elsewhere ends the test."""
    contexts = []

    def go(path, **options):
        context = browser.new_context(**{"viewport": DESK, **options})
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked, page.size = [], [], 0
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(served.url + path)
        return page

    yield go
    for context in contexts:
        for page in context.pages:
            assert page.said == []
            assert [url for url in page.asked if not url.startswith((served.url, "blob:", "data:"))] == []
        context.close()


def draw(page):
    """Draw a seven with the mouse."""
    box = page.locator("#drawing").bounding_box()
    page.mouse.move(box["x"] + 60, box["y"] + 50)
    page.mouse.down()
    for x, y in ((160, 50), (130, 110), (100, 190)):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=5)
    page.mouse.up()


def figures(page, card=0):
    """Give name → text of an overlay, when there are some."""
    page.locator(".card").nth(card).locator("dd").nth(0).filter(has_text=re.compile(r"\d ms")).wait_for()
    rows = page.locator(".card").nth(card).locator(".overlay > div")
    return dict(tuple(text.split("\n")) for text in rows.all_inner_texts())


def tick(page, *titles):
    """Tick these backends and no others."""
    for box in page.locator("#backends input:not(:disabled)").all():
        box.set_checked(box.get_attribute("data-title") in titles)


def axe_source():
    """Give the source of axe where npm can bring it, else nothing."""
    return (bring("axe") / "axe.min.js").read_text(encoding="utf-8") if shutil.which("npm", path=needs.where()) else ""


AXE = """async (rules) => {
  const found = await axe.run(document, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) });
  return found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((one) => one.html.slice(0, 120)).slice(0, 3).join(" | ")}`);
}"""
