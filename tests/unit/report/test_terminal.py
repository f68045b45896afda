"""Terminal: emoji and colour only where they belong."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import IO

import pytest
from rich.cells import cell_len

from cross_backend.report.tables import Table
from cross_backend.report.terminal import Terminal, fancy
from tests.unit.report.streams import Stream, streams


@pytest.mark.parametrize(
    ("tty", "encoding", "variables", "expected"),
    [
        (True, "utf-8", {}, True),
        (True, "UTF8", {}, True),
        (False, "utf-8", {}, False),
        (True, "ascii", {}, False),
        (True, "cp1252", {}, False),
        (True, "utf-8", {"NO_COLOR": "1"}, False),
        (True, "utf-8", {"NO_COLOR": ""}, True),
        (True, "utf-8", {"TERM": "dumb"}, False),
    ],
)
def test_when_it_may_be_fancy(
    tty: bool, encoding: str, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert fancy(Stream(tty=tty, encoding=encoding)) is expected


def test_a_stream_without_an_encoding_is_not_fancy() -> None:
    class Bare:
        def isatty(self) -> bool:
            return True

    stream: IO[str] = Bare()  # type: ignore[assignment]
    assert not fancy(stream)


def test_markup_in_texts_is_printed_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = streams(monkeypatch, tty=False)
    terminal = Terminal()
    terminal.text("[bold]not bold[/bold] :smile:")
    terminal.table(("[red]head",), [("pip install 'cross-backend[vision]'",)])
    terminal.note("[link]note")
    assert "[bold]not bold[/bold] :smile:" in out.text
    assert "[red]head" in out.text and "'cross-backend[vision]'" in out.text
    assert err.text == "[link]note\n"


def test_a_long_cell_is_folded_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    words = [f"word{i}" for i in range(60)]
    Terminal().table(("a", "b"), [("x", " ".join(words))])
    assert all(word in out.text.split() for word in words)


def test_progress_goes_to_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = streams(monkeypatch, tty=False)
    with Terminal().progress() as show:
        show("a", "lowering a", None)
        show("a", "half of a", 0.5)
        show("a", "lowered a ✅", 1)
    assert err.text == "lowered a [ok]\n"
    assert out.text == ""


@pytest.mark.parametrize("tty", [True, False])
def test_quiet_leaves_standard_output_to_the_document(tty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = streams(monkeypatch, tty=tty)
    terminal = Terminal(quiet=True)
    terminal.note("a note")
    with terminal.progress() as show:
        show("a", "text", 1)
    print(json.dumps({}))
    assert (out.text, err.text) == ("{}\n", "")


def test_bars_show_every_key_and_clean_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out, err = streams(monkeypatch, tty=True)
    with Terminal().progress() as show:
        show("a", "first thing", None)
        show("b", "second thing", 0.5)
        show("b", "second thing", 1)
    assert "first thing" in err.text and "second thing" in err.text
    assert out.text == ""


def test_a_number_is_never_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    monkeypatch.setenv("COLUMNS", "40")
    Terminal().table(("name", "ratio", "ms"), [("a name of many words " * 3, "1.15 [1.12, 1.18]", "12,345")], [2], [1])
    assert "1.15 [1.12, 1.18]" in out.text and "12,345" in out.text
    assert max(map(len, out.text.splitlines())) <= 40


@pytest.mark.parametrize(("columns", "width"), [("60", 60), ("", 200), ("none", 200), ("0", 200)])
def test_a_pipe_is_as_wide_as_it_is_said_to_be(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    streams(monkeypatch, tty=False)
    monkeypatch.setenv("COLUMNS", columns)
    assert Terminal().out.width == width


@pytest.mark.parametrize("width", [20, 40, 60, 200])
def test_numbers_stay_whole_however_narrow_it_is(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their headers fold first; where nothing helps, lines are longer than the terminal rather than cut."""
    out, _ = streams(monkeypatch, tty=False)
    monkeypatch.setenv("COLUMNS", str(width))
    targets = [f"executorch.backend_{i}?precision=fp16" for i in range(6)]
    Terminal().table(("Model", *targets), [("a model of a long name", *["12.3 MB"] * 6)], range(1, 7))
    assert out.text.count("12.3 MB") == 6
    folded = "".join("".join(line.split()) for line in out.text.splitlines())
    assert all(character in folded for character in "executorch")


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_the_time_left_is_never_cut(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = streams(monkeypatch, tty=True)
    monkeypatch.setenv("COLUMNS", str(columns))
    with Terminal().progress() as show:
        show("spins", "capture", None)
        for share in (0.0, 0.2, 0.4):
            show("study", "efficientnet_b0, batch 8, 2 threads: launch 2: measure, round 12 of 30", share, "85 s")
            time.sleep(0.3)
        show("study", "ended", 1, "1 s")
    shown = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", err.text)
    assert "about 85 s left" in shown and "about 1 s left" not in shown
    assert max(map(cell_len, re.split(r"[\r\n]", shown))) <= columns


def test_a_table_settles_above_the_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = streams(monkeypatch, tty=True)
    with Terminal().progress() as show:
        show.table(Table("", ("target", "median"), (("XNNPACK", "–"),), (1,)))
        show("measure", "round 1", 0.1)
        show.table(Table("", ("target", "median"), (("XNNPACK", "1.9 ms"),), (1,)))
        time.sleep(0.5)
    assert "1.9 ms" in err.text and out.text == ""
