"""The page of a simulation: one file, no request, every name only a text, and the numbers of the simulations inside."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from atalla.cli import main
from atalla.device import Hardware, Simulation, estimate
from atalla.plain import plain
from atalla.report import spans
from atalla.report.files import replace_file
from atalla.report.what_if import record_row, tile_row
from atalla.run.device import DryProgram, simulate
from tests.atalla.device.report_pages import CHIP, HOSTILE, blob, devices, explored, made

SMALL = Hardware(array=8, scratchpad_bytes=32 << 10)


class Page(HTMLParser):
    """Elements, the texts of scripts and styles, and all other text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.shown = ""
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = (dict(attrs).get("id") or tag) if tag in {"script", "style"} else ""

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.append((self._open, data))
        else:
            self.shown += data

    def inside(self, name: str) -> str:
        """Return the text of a script or style."""
        return "".join(text for found, text in self.texts if found == name)

    @property
    def data(self) -> Any:
        """What the script works with."""
        return json.loads(self.inside("data"))


@pytest.mark.parametrize("kind", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow), "int8"])
def test_every_stop_is_a_simulation_of_that_device(kind: str) -> None:
    grid = explored(kind, CHIP)
    assert grid.axes["scratchpad_bytes"][2] == 96 << 10 and grid.axes["dma_bytes_per_cycle"][2] == 24
    every = devices(grid.axes, CHIP)
    assert len(every) == len(grid.cells) == 4 * 9 * 6
    assert every[[*map(str, grid.cells)].index(str(grid.cells[0]))][0] == [0, 0, 0]
    program = DryProgram(blob(kind))
    for (_, hardware), cell in list(zip(every, grid.cells, strict=True))[::7]:
        wanted = program.simulate(hardware)
        assert not isinstance(cell, str)
        records = [grid.records[place] for place in cell]
        assert [record[:-1] for record in records] == [record_row(one) for one in wanted.instructions]
        tiles = [grid.tiles[place] for record in records for place in grid.lists[record[-1]]]
        assert tiles == [tile_row(tile) for tile in wanted.tiles]


def test_stops_differ_where_the_dma_is_planned_for() -> None:
    """Another width gives another plan here: costs of the same tiles at another speed would not do."""
    grid, plans = explored("float32", CHIP), set()
    for (places, _), cell in zip(devices(grid.axes, CHIP), grid.cells, strict=True):
        if places[:2] == [0, 0]:
            plans.add(tuple(tuple(grid.tiles[i][0] for i in grid.lists[grid.records[one][-1]]) for one in cell))  # type: ignore[index]
    assert len(plans) > 1


def test_a_device_on_which_it_does_not_run_has_a_reason() -> None:
    hardware = Hardware(banks=1024)  # of which 32 KiB are no whole lines
    grid = explored("hostile", hardware)
    for size, wanted in ((32 << 10, "multiple of banks"), (64 << 10, r"instruction 0 (SOFTMAX) does not fit")):
        first = grid.axes["scratchpad_bytes"].index(size) * len(grid.axes["dma_bytes_per_cycle"])
        assert wanted in str(grid.cells[first])
    text = Page(made("hostile", hardware)).shown
    refused = sum(isinstance(cell, str) for cell in grid.cells)
    assert (
        20 < refused < len(grid.cells) and f"{len(grid.cells)} of them; on {refused} the program does not run" in text
    )


def test_one_file_without_request_and_with_a_policy_that_forbids_any() -> None:
    page = Page(made("float32", CHIP))
    for tag, attributes in page.elements:
        assert tag not in {"iframe", "object", "embed", "base", "img"}
        for name, value in attributes.items():
            assert not name.startswith("on") and name not in {"style", "srcset", "action", "formaction"}, (tag, name)
            if name in {"src", "href"}:
                assert (value or "").startswith(("#", "data:,")), (tag, value)
    code = page.inside("script") + page.inside("style")
    assert set(re.findall(r"\w+://[^\"'\s]+", code)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|fetch\(|@import|url\(", code)
    (policy,) = [one["content"] for tag, one in page.elements if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    for name in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.inside(name).encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


def test_names_of_a_foreign_blob_are_texts() -> None:
    text = made("hostile", Hardware(name=HOSTILE), HOSTILE)
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 2 and not any(tag == "img" for tag, _ in page.elements)
    assert page.shown.count(plain(HOSTILE)) == 4  # title, heading, hardware, node
    assert page.data["hardware"]["name"] == plain(HOSTILE)
    assert not set(text) & {"\u202e", "\u2066", "\x1b"}
    (instruction,) = page.data["instructions"]
    assert instruction[:3] == ["SOFTMAX", plain(HOSTILE), plain(HOSTILE)]


def test_the_page_is_read_without_script_too() -> None:
    wanted = simulate(blob("float32"), CHIP)
    page = Page(made("float32", CHIP))
    assert f"{wanted.cycles:,} cycles, an estimate of {wanted.milliseconds:.3f} ms" in page.shown
    for one in (*(f"{one.cycles:,}" for one in wanted.instructions if not one.is_host), "host"):
        assert one in page.shown
    assert f"{sum(one.cycles for one in estimate(wanted)):,}" in page.shown


def _spans(simulation: Simulation) -> list[tuple[int, int, int, int, int, int]]:
    """Return (instruction, engine, begin, end, busy, kind) of each span."""
    document, found = spans.timeline(simulation), []
    for number, engines in enumerate(document["spans"]):
        for engine, flat in enumerate(engines):
            time = document["begins"][number]
            for i in range(0, len(flat), 4):
                gap, long, idle, kind = flat[i : i + 4]
                found.append((number, engine, time + gap, time + gap + long, long - idle, kind))
                time += gap + long
    return found


def test_the_timeline_has_every_micro_operation() -> None:
    simulation = simulate(blob("float32"), SMALL, events=True)
    kinds = spans.timeline(simulation)["kinds"]
    wanted = sorted(
        (
            event.instruction,
            spans.ENGINES.index(event.engine),
            event.begin,
            event.end,
            event.end - event.begin,
            event.kind,
        )
        for event in simulation.events
        if event.engine != "scratchpad"
    )
    assert [(*span[:5], kinds[span[5]]) for span in _spans(simulation)] == wanted and len(wanted) > 500


def test_a_long_timeline_is_drawn_in_few_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    simulation = simulate(blob("float32"), SMALL, events=True)
    monkeypatch.setattr(spans, "MOST", 200)
    found = _spans(simulation)
    assert 50 < len(found) <= 200 and spans.timeline(simulation)["merged"]
    for one in simulation.instructions:
        for engine in range(4):
            mine = [span for span in found if span[:2] == (one.number, engine)]
            assert sum(span[4] for span in mine) == one.busy[engine]
            assert sum(max(1, -span[5]) for span in mine) == one.operations[engine]
            assert all(before[3] <= after[2] for before, after in pairwise(mine))


def test_the_command_writes_the_page_and_tells_how_far_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "<b>net.atalla", tmp_path / "out.html"
    file.write_bytes(blob("int8"))
    out.write_text("an older one")
    chip = tmp_path / "chip.toml"
    chip.write_text("array = 16\n")
    assert main(["simulate", str(file), "--hardware", str(chip), "--report", str(out)]) == 0
    said = capsys.readouterr()
    assert "report: 160 of 160 devices" in said.err and f"written: {out}" in said.out
    page = Page(out.read_text(encoding="utf-8"))
    assert "<b>net.atalla" in page.shown and page.data["hardware"]["array"] == 16 and page.data["base"][0] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["<b>net.atalla", "chip.toml", "out.html"]


@pytest.mark.parametrize("place", ["none/out.html", "."])
def test_a_place_where_no_file_can_be_is_one_line(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.atalla"
    file.write_bytes(blob("int8"))
    assert main(["simulate", str(file), "--report", str(tmp_path / place)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("atalla simulate: cannot write ") and said.err.count("\n") == 1 and not said.out


def test_a_file_that_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "net.atalla"
    file.write_bytes(blob("int8"))
    assert main(["simulate", str(file), "--report", str(tmp_path / f"{'long' * 80}.html")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("atalla simulate: ") and "too long" in lines[-1]
    folder = tmp_path / "out.html"
    folder.mkdir()
    (folder / "kept").touch()
    with pytest.raises(OSError, match=r"out\.html"):
        replace_file(folder, "a page")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.atalla", "out.html"]
