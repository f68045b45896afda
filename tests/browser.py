"""Browser: a real Chromium for pages that we write: offline, in fresh profiles, and any complaint ends the test."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests import needs

PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}

CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = (c) => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour[3] === 1) return colour;
    }
    return [255, 255, 255, 1];
  };
  const found = {};
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || ["SCRIPT", "STYLE", "title", "desc", "NOSCRIPT", "OPTION"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const colour = parse(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const [a, b] = [light(colour), light(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = `${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""}`;
    found[name] = Math.min(found[name] ?? 99, ratio);
  }
  return found;
}"""
"""Contrast of each kind of element that has a text, as WCAG 2.2 defines it; the least of a kind."""


@contextlib.contextmanager
def chromium(*flags: str) -> Iterator[Any]:
    """Give a browser, with further flags of its command line; skip the test where there is none."""
    path = needs.program("chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        arguments = ["--no-sandbox", "--disable-background-networking", "--disable-dev-shm-usage", *flags]
        found = play.chromium.launch(executable_path=path, args=arguments)
        yield found
        found.close()


@contextlib.contextmanager
def visits(browser: Any) -> Iterator[Callable[..., Any]]:
    """Give a function that opens a page offline in a fresh profile; complaints and requests end the test."""
    contexts = []

    def go(path: Path, **options: Any) -> Any:
        options.setdefault("viewport", DESK)
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.said, page.asked = [], []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield go
    for context in contexts:
        for page in context.pages:
            assert page.said == []
            assert [url for url in page.asked if not url.startswith(("file:", "blob:file"))] == []
            assert len([url for url in page.asked if url.startswith("file:")]) == 1
        context.close()
