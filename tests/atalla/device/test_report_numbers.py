"""The page's numbers in a real browser: on every device those of Python, and drawn as they are."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atalla.cli import main
from atalla.device import Hardware, TileCost, estimate
from atalla.device.analytic import Slots, instruction_cycles
from atalla.device.simulation import Engines
from atalla.report.what_if import tile_row
from atalla.run.device import DryProgram, simulate
from tests.atalla.device.report_pages import CHIP, blob, column, devices, explored, overflow, slide, total

Visit = Callable[..., Any]

ESTIMATES = """(every) => every.map((places) => {
  const device = grid.device(places);
  return device.reason ? device.reason : device.layers.filter((layer) => !layer.isHost).map((layer) =>
    [layer.number, layer.analytic, layer.cycles, layer.bound, layer.utilisation, layer.inBytes, layer.outBytes]);
})"""
"""What the page works out for devices: a row for each layer, or why there is none."""


@pytest.mark.parametrize("kind", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow), "int8", "hostile"])
def test_every_stop_has_the_numbers_of_python(kind: str, show: Visit) -> None:
    usual = Hardware() if kind == "hostile" else CHIP
    every = devices(explored(kind, usual).axes, usual)[::3]
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
            early = choice.randint(0, cycles.load - late) if choice.random() < 0.3 else 0
            before = choice.randint(early, cycles.load - late) if spread else 0
            bias = drain = 0
            if operations.matrix > 2:
                bias, drain = (choice.randint(0, cycles.matrix // 2) if choice.random() < 0.3 else 0 for _ in range(2))
            flags = choice.random() < 0.5, choice.random() < 0.5
            count = choice.choice((1, 2, 7, 64, 65, 200, 1001))
            parts = (late, spread, before, early, bias, drain)
            tiles.append(TileCost(0, count, cycles, operations, 1, 1, 1, 1, *parts, *flags))
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


@pytest.mark.slow
def test_a_whole_network(visit: Visit, tmp_path: Path) -> None:
    """MobileNetV3-Small by the command: below 3 MB, quick to move, and right for a fifth of the devices."""
    out, file = tmp_path / "out.html", tmp_path / "net.atalla"
    assert main(["compile", "mobilenet_v3_small", "-o", str(file)]) == 0
    assert main(["simulate", str(file), "--report", str(out)]) == 0
    assert out.stat().st_size < 3_000_000
    page = visit(out)
    program, usual = DryProgram(file.read_bytes()), Hardware()
    every = devices({name: tuple(stops) for name, stops in page.evaluate("data.axes").items()}, usual)
    shown = page.evaluate(ESTIMATES, [places for places, _ in every])
    assert len(every) == 160
    some = [(hardware, rows) for (places, hardware), rows in zip(every, shown, strict=True) if sum(places) % 5 == 0]
    assert len(some) == 32
    for hardware, rows in some:
        wanted = program.simulate(hardware)
        assert [(row[1], row[2], row[3]) for row in rows] == [
            (o.cycles, o.simulated, o.bound) for o in estimate(wanted)
        ]
    slide(page, "scratchpad_bytes", 0)
    least = simulate(file.read_bytes(), usual.replaced(scratchpad_bytes=32 << 10))
    assert total(page, "analytic") == sum(one.cycles for one in estimate(least))
    assert overflow(page) <= 0
