"""The page of a simulation in a real browser: offline, silent, and its numbers those of Python on every device."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from atalla.device import Hardware, TileCost, estimate
from atalla.device.analytic import Slots, instruction_cycles
from atalla.device.simulation import Engines
from atalla.plain import plain
from atalla.report.what_if import tile_row
from atalla.run.device import DryProgram, simulate
from tests.atalla.device.report_pages import CHIP, HOSTILE, blob, devices, explored, made
from tests.browser import CONTRAST, DESK, PHONE, chromium, visits

pytestmark = pytest.mark.usefixtures("library")
Visit = Callable[..., Any]
AXES = ("array", "scratchpad_bytes", "dma_bytes_per_cycle")

ESTIMATES = """(every) => every.map((places) => {
  const device = grid.device(places);
  return device.reason ? device.reason : device.layers.filter((layer) => !layer.isHost).map((layer) =>
    [layer.number, layer.analytic, layer.cycles, layer.bound, layer.utilisation, layer.inBytes, layer.outBytes]);
})"""
"""What the page works out for devices: a row for each layer, or why there is none."""

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


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    with visits(browser) as go:
        yield go


@pytest.fixture
def show(visit: Visit, tmp_path: Path) -> Visit:
    """Give a function that opens the page of a program."""

    def go(kind: str = "float32", hardware: Hardware = CHIP, name: str = "a model", **options: Any) -> Any:
        path = tmp_path / "out.html"
        path.write_text(made(kind, hardware, name), encoding="utf-8")
        return visit(path, **options)

    return go


def slide(page: Any, axis: str, stop: int) -> None:
    """Move a slider as a hand does: with the keys, from its least stop on."""
    page.locator(f"#{axis}").press("Home")
    for _ in range(stop):
        page.keyboard.press("ArrowRight")


def total(page: Any, name: str) -> float:
    return float(page.locator(f"#total-{name}").get_attribute("data-value"))


def column(page: Any, name: str) -> list[str]:
    """Return the texts of a column of the layer table."""
    names: list[str] = page.locator("#layer-table thead th").evaluate_all(
        "(cells) => cells.map((c) => c.dataset.column)"
    )
    found: list[str] = page.locator(f"#layer-table tbody tr > :nth-child({names.index(name) + 1})").all_inner_texts()
    return found


def overflow(page: Any) -> int:
    found: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return found


@pytest.mark.parametrize("kind", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow), "int8", "hostile"])
def test_every_stop_has_the_numbers_of_python(kind: str, show: Visit) -> None:
    usual = Hardware() if kind == "hostile" else CHIP
    every = devices(explored(kind, usual), usual)[::3]
    shown = show(kind, usual).evaluate(ESTIMATES, [places for places, _ in every])
    program = DryProgram(blob(kind))
    ran = 0
    for (_, hardware), rows in zip(every, shown, strict=True):
        if isinstance(rows, str):
            assert kind == "hostile" and "does not fit" in rows
            continue
        wanted = program.simulate(hardware)
        counters = {one.number: one for one in wanted.instructions}
        assert rows == [
            [
                one.number, one.cycles, one.simulated, one.bound, counters[one.number].utilisation(hardware),
                counters[one.number].in_bytes, counters[one.number].out_bytes,
            ]
            for one in estimate(wanted)
        ]  # fmt: skip
        ran += 1
    assert ran > 20


def test_the_flow_shop_is_that_of_python(show: Visit) -> None:
    """Random tiles: more than those that real plans have, long rows of equal ones, and halves that are rounded."""
    choice = random.Random(0)
    cases = []
    for _ in range(200):
        tiles = []
        most = choice.choice((5, 40, 300))
        for _ in range(choice.randint(1, 6)):
            operations = Engines(*(choice.choice((0, 1, 1, 2, 5)) for _ in range(4)))
            cycles = Engines(*(choice.randint(0, most) if one else 0 for one in operations))
            late = choice.randint(0, cycles.load) if choice.random() < 0.3 else 0
            spread = choice.randint(0, cycles.vector) if choice.random() < 0.3 else 0
            flags = choice.random() < 0.5, choice.random() < 0.5
            count = choice.choice((1, 2, 7, 64, 65, 200, 1001))
            tiles.append(TileCost(0, count, cycles, operations, 1, 1, 1, 1, late, spread, *flags))
        hardware = Hardware(queue=choice.choice((1, 2, 5, 16)), issue_cycles=choice.choice((0, 1, 4, 9)))
        slots = Slots(*(choice.randint(0, 4) for _ in range(4)))
        cases.append((tiles, hardware, slots))
    asked = [
        ([tile_row(tile) for tile in tiles], dataclasses.asdict(hardware), slots._asdict())
        for tiles, hardware, slots in cases
    ]
    shown = show().evaluate("(cases) => cases.map((one) => instructionCycles(...one))", asked)
    assert shown == [instruction_cycles(*case) for case in cases]
    assert len(set(shown)) > 150


def test_halves_are_rounded_to_the_even_neighbour(show: Visit) -> None:
    values = [0.5, 1.5, 2.5, 3.5, 0.49999999999999994, 2.4999, 2.5001, 7, 4503599627370497.5]
    assert show().evaluate("(values) => values.map(roundHalfEven)", values) == [round(value) for value in values]


def test_sliders_change_totals_table_and_roofline(show: Visit) -> None:
    page = show()
    hardware, before = CHIP, page.locator("#roofline-chart circle").first.get_attribute("cy")
    for axis, stop in (("array", 0), ("scratchpad_bytes", 0), ("dma_bytes_per_cycle", 4)):
        slide(page, axis, stop)
        hardware = hardware.replaced(**{axis: explored("float32", CHIP).axes[axis][stop]})
        wanted = simulate(blob("float32"), hardware)
        guesses = estimate(wanted)
        assert total(page, "analytic") == sum(one.cycles for one in guesses)
        assert total(page, "cycles") == wanted.cycles
        assert total(page, "milliseconds") == wanted.milliseconds
        assert total(page, "utilisation") == wanted.utilisation
        assert (total(page, "in"), total(page, "out")) == (wanted.in_bytes, wanted.out_bytes)
        assert total(page, "stall-vector") == sum(one.stalls.vector for one in wanted.instructions)
        assert total(page, "bound-vector") == sum(one.bound == "vector" for one in guesses)
        assert column(page, "cycles") == ["host" if one.is_host else f"{one.cycles:,}" for one in wanted.instructions]
        assert [text for text in column(page, "analytic") if text] == [f"{one.cycles:,}" for one in guesses]
        assert [text for text in column(page, "bound") if text] == [one.bound for one in guesses]
        strong = page.locator("#stops .label.strong").all_text_contents()
        assert strong.count(f"{wanted.cycles:,}") == 3  # in each of the three charts
    before_cycles = simulate(blob("float32"), CHIP).cycles
    more = page.locator("#total-cycles").locator("xpath=following-sibling::td").all_inner_texts()
    assert more == [f"{before_cycles:,}", f"{total(page, 'cycles') / before_cycles - 1:+.1%}"]
    assert page.locator("#array-value").inner_text() == "8 × 8"
    assert page.locator("#scratchpad_bytes").get_attribute("aria-valuetext") == "32 KiB"
    assert page.locator("#roofline-chart circle").first.get_attribute("cy") != before
    page.get_by_role("button", name="Back to the hardware").click()
    assert total(page, "cycles") == simulate(blob("float32"), CHIP).cycles
    assert page.locator("#roofline-chart circle").first.get_attribute("cy") == before
    page.locator("#stops figure").nth(0).locator("rect").last.click()
    assert page.locator("#array-value").inner_text() == "64 × 64"


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


def test_marks_are_below_the_roof(show: Visit) -> None:
    page = show()
    shown = page.evaluate("""() => grid.device(places).layers.filter(isOnRoofline).map((layer) =>
        [layer.number, layer.macs / layer.cycles, layer.macs / busierBytes(layer)])""")
    products = [one for one in simulate(blob("float32"), CHIP).instructions if one.macs]
    assert shown == [
        [one.number, one.macs / one.cycles, one.macs / max(one.in_bytes, one.out_bytes)] for one in products
    ]
    assert page.locator("#roofline-chart .mark").count() == len(products) > 4
    for _, high, wide in shown:
        assert high <= min(CHIP.array**2, CHIP.dma_bytes_per_cycle * wide)
    roof = page.locator("#roofline-chart .roof").first.get_attribute("d")
    slide(page, "dma_bytes_per_cycle", 5)
    assert page.locator("#roofline-chart .roof").first.get_attribute("d") != roof


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


def test_the_timeline_is_that_of_the_events(show: Visit) -> None:
    page = show()
    wanted = simulate(blob("float32"), CHIP)
    shares = page.evaluate("timeline.shares()")
    busy = [sum(one.busy[engine] for one in wanted.instructions) for engine in range(4)]
    assert shares == pytest.approx([one / wanted.cycles for one in busy])
    text = page.locator("#timeline-text").inner_text()
    assert text.startswith(f"Cycles 0 to {wanted.cycles:,}. Busy: load {shares[0]:.1%}")
    lanes = page.locator("#timeline-chart .span")
    assert [lanes.nth(i).get_attribute("data-lane") for i in range(4)] == ["load", "store", "matrix", "vector"]
    assert all((lanes.nth(i).get_attribute("d") or "").count("z") > 5 for i in range(4))


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


def test_many_spans_are_summed_up_in_columns(show: Visit) -> None:
    """What is drawn covers the same part of the time, however it is drawn."""
    page = show(hardware=Hardware(array=8, scratchpad_bytes=32 << 10))
    drawn = page.evaluate("""() => ENGINES.map((_, lane) => {
        const [first, last] = timeline.seen(lane);
        const boxes = [...timeline.spansPath(lane).matchAll(/v-([\\d.]+)h([\\d.]+)/g)];
        const area = boxes.reduce((all, [, high, wide]) => all + high * wide, 0);
        return [last - first, boxes.length, area / LANE.high / (LANE.width - LANE.left - LANE.right)];
    })""")
    shares = page.evaluate("timeline.shares()")
    assert any(spans > 3000 and boxes <= 450 for spans, boxes, _ in drawn)
    assert any(spans <= 3000 and boxes == spans for spans, boxes, _ in drawn)
    assert [area for _, _, area in drawn] == pytest.approx(shares, abs=0.02)


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


@pytest.mark.slow
def test_a_whole_network(visit: Visit, tmp_path: Path) -> None:
    """MobileNetV3-Small by the command: below 3 MB, quick to move, and every device's total that of Python."""
    from atalla.cli import main

    out, file = tmp_path / "out.html", tmp_path / "net.atalla"
    assert main(["compile", "mobilenet_v3_small", "-o", str(file)]) == 0
    assert main(["simulate", str(file), "--report", str(out)]) == 0
    assert out.stat().st_size < 3_000_000
    page = visit(out)
    program, usual = DryProgram(file.read_bytes()), Hardware()
    every = devices(explored_like(page), usual)
    shown = page.evaluate(ESTIMATES, [places for places, _ in every])
    assert len(every) == 160
    for (_, hardware), rows in zip(every, shown, strict=True):
        wanted = program.simulate(hardware)
        assert [(row[1], row[2], row[3]) for row in rows] == [
            (o.cycles, o.simulated, o.bound) for o in estimate(wanted)
        ]
    slide(page, "scratchpad_bytes", 0)
    least = simulate(file.read_bytes(), usual.replaced(scratchpad_bytes=32 << 10))
    assert total(page, "analytic") == sum(one.cycles for one in estimate(least))
    assert overflow(page) <= 0


def explored_like(page: Any) -> Any:
    """Return the axes of a page's grid, as a grid has them."""
    from types import SimpleNamespace

    return SimpleNamespace(axes={name: tuple(stops) for name, stops in page.evaluate("data.axes").items()})
