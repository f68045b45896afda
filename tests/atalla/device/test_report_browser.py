"""The page of a simulation in a real browser: offline, silent, by mouse and by key, on paper and on a phone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atalla.device import Hardware
from atalla.plain import plain
from atalla.run.device import simulate
from tests.atalla.device.report_pages import CHIP, HOSTILE, blob, column, made, overflow, slide, total
from tests.browser import CONTRAST, DESK, PHONE

Visit = Callable[..., Any]
AXES = ("array", "scratchpad_bytes", "dma_bytes_per_cycle")

DRAWN = """() => [...document.querySelectorAll("svg.chart")].map((svg) => {
  const view = svg.viewBox.baseVal, wrong = [];
  for (const mark of svg.querySelectorAll("path, rect, circle, text")) {
    for (const { name, value } of mark.attributes) {
      if (/NaN|Infinity|undefined/.test(value)) wrong.push(`${mark.tagName} ${name}=${value}`);
    }
    const box = mark.getBBox();
    if (mark.hasAttribute("transform") || box.width + box.height === 0) continue;
    if (box.x < -1 || box.y < -1 || box.x + box.width > view.width + 1 || box.y + box.height > view.height + 1) {
      wrong.push(`${mark.tagName}.${mark.getAttribute("class")} ${mark.textContent} is outside`);
    }
  }
  return { title: svg.querySelector("title").textContent, width: svg.getBoundingClientRect().width, wrong };
})"""


def test_a_device_on_which_it_does_not_run_says_why(show: Visit) -> None:
    page = show("hostile", Hardware())
    slide(page, "scratchpad_bytes", 0)
    assert (
        "instruction 0 (SOFTMAX) does not fit into a scratchpad of 32768 bytes" in page.locator("#cannot").inner_text()
    )
    assert not page.locator("#totals").is_visible() and page.locator("#layer-table tbody tr").count() == 0
    assert page.get_by_text("does not run", exact=True).count() >= 2  # the bars of small scratchpads
    slide(page, "scratchpad_bytes", 7)
    assert page.locator("#totals").is_visible() and not page.locator("#cannot").is_visible()


@pytest.mark.slow
def test_the_table_sorts_by_every_column(show: Visit) -> None:
    page = show()
    for name, header in (("cycles", "cycles"), ("in", "in"), ("analytic", "analytic")):
        page.get_by_role("button", name=header, exact=True).click()
        numbers = [int(text.replace(",", "")) for text in column(page, name) if text not in {"", "host"}]
        assert numbers == sorted(numbers, reverse=True) and len(numbers) > 5
        assert page.locator("th[aria-sort=descending]").inner_text().startswith(header)
        page.keyboard.press("Enter")  # the header has the focus
        assert page.locator("th[aria-sort=ascending]").inner_text().startswith(header)
        assert [int(text.replace(",", "")) for text in column(page, name) if text not in {"", "host"}] == numbers[::-1]
    page.get_by_role("button", name="operation").click()
    assert column(page, "operation") == sorted(column(page, "operation"))


def test_a_layer_is_chosen_by_key_and_seen_everywhere(show: Visit) -> None:
    page = show()
    one = next(one for one in simulate(blob("float32"), CHIP).instructions if one.macs)
    page.get_by_role("button", name=f"Show layer {one.number}", exact=True).press("Enter")
    facts = page.locator("#chosen").inner_text()
    assert one.node in facts and one.line in facts and f"{one.macs:,}" in facts
    assert page.locator("#roofline-chart .mark.chosen").last.get_attribute("data-number") == str(one.number)
    assert page.locator("#layer").input_value() == str(one.number)
    assert page.evaluate("document.activeElement.dataset.number") == str(one.number), "the focus stays"
    begin, end = page.evaluate("timeline.view")
    assert begin <= one.begin + 1 and one.begin + one.cycles - 1 <= end <= one.begin + 2 * one.cycles


@pytest.mark.slow
def test_the_timeline_moves_by_keys_and_stays_within_the_run(show: Visit) -> None:
    page = show()
    end = simulate(blob("float32"), CHIP).cycles
    place = page.locator("#timeline-chart")
    place.press("+")
    place.press("+")
    first = page.evaluate("timeline.view")
    assert first == pytest.approx([end * 3 / 8, end * 5 / 8])
    place.press("ArrowRight")
    assert page.evaluate("timeline.view") == pytest.approx([one + end / 16 for one in first])
    for _ in range(20):
        place.press("ArrowRight")
    assert page.evaluate("timeline.view")[1] == end
    for _ in range(60):
        place.press("+")
    view = page.evaluate("timeline.view")
    assert view[1] - view[0] == 8
    page.get_by_role("button", name="Zoom out").click()
    assert page.evaluate("timeline.view[1] - timeline.view[0]") == 16
    place.press("Home")
    assert page.evaluate("timeline.view") == [0, end]


def test_pointing_at_a_span_says_what_it_is(show: Visit) -> None:
    page = show()
    texts = page.evaluate("""() => ENGINES.map((_, lane) => {
        const spans = timeline.lanes[lane], x = timeline.x((spans.begin[0] + spans.end[0]) / 2);
        return timeline.told(x, timeline.laneTop(lane) + 5);
    })""")
    events = simulate(blob("float32"), CHIP, events=True).events
    for engine, text in zip(("load", "store", "matrix", "vector"), texts, strict=True):
        first = next(event for event in events if event.engine == engine)
        assert text.startswith(f"{first.kind}, cycles {first.begin:,} to {first.end:,}, of #{first.instruction} ")
    page.evaluate("""() => {
        const spans = timeline.lanes[0], half = (spans.end[0] - spans.begin[0]) / 2;
        timeline.show(spans.begin[0] - half, spans.end[0] + half);
    }""")
    chart = page.locator("#timeline-chart svg")
    chart.scroll_into_view_if_needed()
    scale = chart.bounding_box()["width"] / 1000
    chart.hover(position={"x": 526 * scale, "y": page.evaluate("timeline.laneTop(0) + 5") * scale})
    assert page.locator("#timeline-told").inner_text() == texts[0]
    chart.hover(position={"x": 20 * scale, "y": 5 * scale})
    assert page.locator("#timeline-told").inner_text() == "Point at a span to read what it is."


@pytest.mark.parametrize("kind", ["float32", "hostile"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_charts_are_whole_and_nothing_sticks_out(kind: str, viewport: Any, show: Visit) -> None:
    page = show(kind, CHIP if kind == "float32" else Hardware(), HOSTILE, viewport=viewport)
    page.get_by_role("button", name="Show layer 0", exact=True).click()
    charts = page.evaluate(DRAWN)
    assert len(charts) == 5 and all(chart["wrong"] == [] and chart["width"] > 250 for chart in charts), charts
    assert overflow(page) <= 0
    assert page.locator("h1").inner_text() == plain(HOSTILE) and page.locator("img").count() == 0
    if kind == "hostile":
        assert plain(HOSTILE) in page.locator("#chosen").inner_text()


@pytest.mark.parametrize("kind", ["hosted", "nothing"])
def test_a_program_with_hardly_any_cycles_has_a_sound_page(kind: str, show: Visit) -> None:
    page = show(kind, Hardware())
    slide(page, "array", 0)
    charts = page.evaluate(DRAWN)
    assert len(charts) == 5 and all(chart["wrong"] == [] for chart in charts), charts
    page.locator("#timeline-chart").press("+")
    if kind == "hosted":
        assert "host" in column(page, "cycles") and page.get_by_text("The host computes a part of it").is_visible()
    else:
        assert total(page, "cycles") == total(page, "analytic") == 0 and column(page, "cycles") == []
        assert page.locator("#timeline-text").inner_text().startswith("Cycles 0 to 1. Busy: load 0.0%")


@pytest.mark.slow
def test_the_table_is_the_same_with_and_without_script(show: Visit) -> None:
    with_script = show("int8")
    without = show("int8", java_script_enabled=False)
    for name in ("number", "operation", "node", "cycles", "share", "used", "in", "out", "stalls", "bound", "analytic"):
        assert column(with_script, name) == column(without, name) and len(column(without, name)) > 5, name
    assert without.get_by_text("need JavaScript").is_visible() and not without.locator("#what-if").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_stand_out(scheme: str, show: Visit) -> None:
    page = show(color_scheme=scheme)
    page.get_by_role("button", name="Show layer 0", exact=True).click()
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 15 and {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}
    wanted = {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == wanted[scheme]


def test_everything_that_is_worked_has_a_name_and_is_reached_by_tab(show: Visit) -> None:
    page = show()
    nameless = page.evaluate("""() => [...document.querySelectorAll("button, input, select, [role=region], [role=img]")]
        .filter((e) => !(e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") || e.labels?.length ||
                         e.textContent.trim())).map((e) => e.outerHTML)""")
    assert nameless == []
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))
    reached = set()
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id"))
    assert {*AXES, "reset", "roofline-chart", "layer", "timeline-left", "timeline-all", "timeline-chart"} <= reached


def test_the_policy_stops_scripts_of_others(browser: Any, tmp_path: Path) -> None:
    changed = made("int8", CHIP).replace("<main>", "<main><script>document.title = 'taken'</script>")
    (tmp_path / "changed.html").write_text(changed, encoding="utf-8")
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "changed.html").as_uri())
    assert page.title() != "taken" and any("Content Security Policy" in text for text in said)
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', (error) => error.name)") == "TypeError"
    page.close()


def test_print_has_all_layers_on_white_paper(show: Visit) -> None:
    page = show(color_scheme="dark", viewport={"width": 1031, "height": 703})
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.locator("nav").is_visible() and overflow(page) <= 0
    assert page.locator(".tall").evaluate("(e) => e.scrollHeight <= e.clientHeight + 1")
