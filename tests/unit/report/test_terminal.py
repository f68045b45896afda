"""Terminal: emoji and colour only where they belong, and nothing of a comparison is left out."""

from __future__ import annotations

import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from cross_backend.records import Outcome, Panel
from cross_backend.report import study_tables
from cross_backend.report.terminal import Terminal, fancy, print_panel, print_study
from cross_backend.report.views import view, views
from tests.unit.report import studies


class _Stream(io.TextIOWrapper):
    """A text stream that says what it is."""

    def __init__(self, *, tty: bool, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    @property
    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


def streams(monkeypatch: pytest.MonkeyPatch, **kind: object) -> tuple[_Stream, _Stream]:
    out, err = _Stream(**kind), _Stream(**kind)  # type: ignore[arg-type]
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    return out, err


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
    assert fancy(_Stream(tty=tty, encoding=encoding)) is expected


def test_a_stream_without_an_encoding_is_not_fancy() -> None:
    class Bare:
        def isatty(self) -> bool:
            return True

    stream: IO[str] = Bare()  # type: ignore[assignment]
    assert not fancy(stream)


def test_a_terminal_gets_emoji_and_colour(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = streams(monkeypatch, tty=True)
    print_panel(Terminal(), panel)
    assert all(mark in out.text for mark in "🥇🥈🚀✅❌🏆📈🏃⚡🎯")
    assert "\x1b[1m" in out.text
    assert err.text == ""


def test_a_pipe_gets_words(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    print_panel(Terminal(), panel)
    assert "\x1b" not in out.text
    assert not [c for c in out.text if ord(c) >= 0x2600], "no emoji"
    assert "[ok] Fast: 0.5100 ms avg, 0.5000 ms median" in out.text
    assert "[fail] Mismatch: MISMATCH: reason of MISMATCH" in out.text
    assert "[warn] Unavailable: UNAVAILABLE: reason of UNAVAILABLE" in out.text


def test_nothing_of_a_comparison_is_left_out(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    print_panel(Terminal(), panel)
    text = out.text
    for result in panel.results:
        assert result.title in text
        assert result.outcome is Outcome.OK or f"reason of {result.outcome}" in text
    for line in ("Fastest: Fast", "400.0x over slowest (Slow)", "Tie at rank 2: Tied, Also",
                 study_tables.doubt([view(panel)]), "Slow: other work disturbed it",
                 "97.5 %", "2.718000", panel.machine.cpu):  # fmt: skip
        assert line in text
    positions = [
        text.rindex(f"{rank}.  {title}") for rank, title in ((1, "Fast"), (2, "Tied"), (2, "Also"), (4, "Slow"))
    ]
    assert positions == sorted(positions)


def test_a_tie_for_the_first_place_names_all(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    tied = tuple(replace(result, rank=1) for result in panel.ranked)
    print_panel(Terminal(), replace(panel, results=tied))
    assert "Fastest: Fast and Tied and Also and Slow (a tie)" in out.text
    assert "Speed improvement" not in out.text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"interrupted": True}, "Interrupted: this is what was finished"),
        ({"noise_floor": None}, "noise floor was not measured"),
    ],
)
def test_what_limits_a_comparison_is_told(
    change: dict[str, object], line: str, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = streams(monkeypatch, tty=False)
    print_panel(Terminal(), replace(panel, **change))  # type: ignore[arg-type]
    assert line in out.text


def test_when_nothing_was_measured_it_says_so(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    failed = tuple(result for result in panel.results if result.outcome is not Outcome.OK)
    verified = replace(failed[0], outcome=Outcome.OK, title="Verified")
    print_panel(Terminal(), replace(panel, results=(*failed, verified)))
    assert "Nothing could be ranked" in out.text
    assert "Verified: verified, not measured" in out.text


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_a_stream_that_knows_few_characters_is_no_reason_to_fail(
    encoding: str, panel: Panel, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, _ = streams(monkeypatch, tty=False, encoding=encoding)
    print_panel(Terminal(), panel)
    assert "Fastest: Fast" in out.text


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


def test_bars_tell_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    _, err = streams(monkeypatch, tty=True)
    with Terminal().progress() as show:
        show("spins", "capture", None)
        for share in (0.0, 0.2, 0.4):
            show("measure", "rounds", share)
            show("study", "panel (about 3 min left)", share)
            time.sleep(0.02)
    shown = re.sub(r"\x1b\[[\d;]*m", "", err.text)
    assert re.search(r"rounds .*about 0:00:\d\d left", shown)
    assert not re.search(r"(3 min left\)|capture) .*about \d", shown), "said once, and only where it is known"


def test_a_study_is_printed_with_the_rows_of_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    results = studies.study()
    print_study(Terminal(), replace(results, finished=False))
    out = capsys.readouterr().out
    assert "cannot be told apart" in out and "Not finished" in out and "reason of UNAVAILABLE" in out
    for table in (study_tables.overview(views(results)), study_tables.ranked(views(results))):
        for row in table.rows:
            assert any(all(word in line for cell in row for word in cell.split()) for line in out.splitlines()), row
    print_study(Terminal(), replace(results, panels=()))
    assert "No panel was begun" in capsys.readouterr().out
