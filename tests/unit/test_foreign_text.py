"""Foreign text: nothing that a terminal obeys or that fools a reader goes out, by whichever way."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.cli import Parser, _complain
from cross_backend.errors import CrossBackendError, RunError, StudyFileError, UnavailableError, UsageError, one_line
from cross_backend.foreign_text import plain
from cross_backend.names.target import Target
from cross_backend.placement import Operators, Placement
from cross_backend.records import Outcome, StudyResults
from cross_backend.report import html, markdown
from cross_backend.report.placement import print_operators
from cross_backend.report.printed import print_panel, print_study
from cross_backend.report.terminal import Terminal
from tests.unit.report import studies
from tests.unit.report.test_terminal import streams

HOSTILE = {
    "a sequence that clears": "\x1b[2J\x1b[H",
    "a title": "\x1b]0;pwned\x07",
    "a link": "\x1b]8;;https://example.org\x1b\\click\x1b]8;;\x1b\\",
    "a control of eight bits": "\x9b31m",
    "a return": "verified\rWRONG",
    "a backspace": "BAD\b\b\bOK",
    "a zero": "a\0b",
    "the other direction": "\u202egnp.exe\u202c",
    "an isolate": "\u2066x\u2069",
    "no width": "\u200bcpu\ufeff",
    "separators": "a\u2028b\u2029c\x85d",
    "half a letter": "\ud800",
    "a delete": "\x7f",
    "a tag": "\U000e0041",
}


def is_clean(text: str) -> bool:
    """Say whether each line shows all that is in it."""
    return all(line.replace("\u2060", "").isprintable() for line in text.split("\n"))


def test_what_is_plain_stays_as_it_is() -> None:
    for text in ("", "mobilenet_v3_small", "Größe 12 µs, 3 × 4 – ⚠️ ❌ 模型", "[red]x[/red]"):
        assert plain(text) == text


@pytest.mark.parametrize("what", HOSTILE)
def test_what_a_terminal_obeys_shows_its_code(what: str) -> None:
    shown = plain(f"a{HOSTILE[what]}b")
    assert shown.isprintable() and shown.startswith("a") and shown.endswith("b")
    shown.encode()


def test_codes_can_be_read() -> None:
    assert plain("\x1b[31m\u202e\ud800\x9b") == r"\x1b[31m\u202e\ud800\x9b"
    assert plain("a\tb\r\nc\u00a0d") == "a b  c d"


@given(st.text())
def test_nothing_gets_through(text: str) -> None:
    shown = plain(text)
    assert shown.isprintable() and plain(shown) == shown
    assert not [c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_errors_are_plain(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for error in (RunError(f"a{text}b"), UnavailableError(text, text), CrossBackendError(text), ValueError(text)):
        assert plain(one_line(error)) == one_line(error)
        _complain("run", error, 1)
    assert str(RunError(f"a\nb{text}")).isprintable()
    assert (
        is_clean(str(StudyFileError([text, text]))) and len(str(StudyFileError(["a", f"b\n{text}"])).split("\n")) == 2
    )
    assert is_clean(capsys.readouterr().err)


def test_a_target_holds_no_controls() -> None:
    for text in HOSTILE.values():
        with pytest.raises(UsageError):
            Target.parse(f"cpu?threads={text}")


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE.keys())
def foreign(request: pytest.FixtureRequest) -> str:
    return f"<b>x{request.param}|`[red]y[/]"


@pytest.fixture
def poisoned(foreign: str) -> StudyResults:
    """A study in whose every text stands something foreign."""
    panel = studies.panel(targets=3)
    results = (
        *(replace(one, title=foreign, warnings=(foreign,)) for one in panel.results[:2]),
        *(
            replace(one, outcome=Outcome.RUN_FAIL, reason=foreign, title=foreign, rank=None)
            for one in panel.results[2:]
        ),
    )
    poisoned = replace(panel, workload=foreign, warnings=(foreign,), results=results)
    known = studies.study(poisoned)
    return replace(
        known, name=foreign, versions={foreign: foreign}, machine=replace(known.machine, cpu=foreign, system=foreign)
    )


def prints(terminal: Terminal, foreign: str) -> None:
    terminal.text(foreign)
    terminal.note(foreign)
    terminal.table((foreign, "b"), [(foreign, foreign)])
    with terminal.progress() as show:
        show("a", foreign, None)
        show("a", foreign, 0.5)
        show("b", foreign, 1)
    operators = Operators(foreign, 1, foreign, 2, (foreign, foreign))
    print_operators(terminal, Placement({foreign: 1}, (operators,), (operators,)))


def test_terminals_get_it_plain(foreign: str, poisoned: StudyResults, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    prints(terminal, foreign)
    print_panel(terminal, poisoned.panels[0])
    print_study(terminal, poisoned)
    out, err = capsys.readouterr()
    assert is_clean(out) and is_clean(err)
    assert "[red]y[/]" in out and "[red]y[/]" in err, "markup is a text like others"


def test_colours_are_all_that_a_terminal_obeys(foreign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = streams(monkeypatch, tty=True)
    prints(Terminal(), foreign)
    for text in (out.text, err.text):
        rest = re.sub(r"\x1b\[(\d+(;\d+)*m|\?25[lh]|\d*A|2K)", "", text).replace("\r", "")  # Rich's own
        assert is_clean(rest) and "[red]y[/]" in rest


def test_markup_is_a_text_like_others_where_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a name could colour or link what stands behind it, and one that closes what is not open ends the command."""
    _, err = streams(monkeypatch, tty=True)
    with Terminal().progress() as show:
        for number, text in enumerate(("[red]x", "[/]x", "[link=https://example.org]x[/link]")):
            show(str(number), text, 0.5)
    assert all(text in err.text for text in ("[red]x", "[/]x", "[link=https://example.org]x[/link]"))


def test_reports_get_it_plain(poisoned: StudyResults, tmp_path: Path) -> None:
    text = markdown.text(poisoned)
    assert is_clean(text)
    assert "<b>" not in text and "[red]" not in text.replace("\\[", "").replace("\\]", "")
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1, "no cell more"
    html.write(poisoned, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert is_clean(page) and "<b>x" not in page


def test_a_usage_error_is_plain(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="cross-backend x")
    with pytest.raises(SystemExit):
        parser.unknown(["--\u202ex\x1b[2J"])
    with pytest.raises(SystemExit):
        parser.error("no file '\x1b[2J'.")
    assert is_clean(capsys.readouterr().err)
