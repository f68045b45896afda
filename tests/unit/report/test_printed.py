"""Printed: what decides stands in a table that fits, and nothing of a comparison is left out."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from cross_backend.placement import Operators, Placement
from cross_backend.records import INTERRUPTED, Outcome, Panel, Result
from cross_backend.report import figures, study_tables, tables, verdicts
from cross_backend.report.printed import print_panel, print_study
from cross_backend.report.terminal import Terminal
from cross_backend.report.views import views
from cross_backend.study.runner import Results
from tests.unit.report import studies
from tests.unit.report.streams import streams


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
    assert "[ok] Fast: 510 µs avg, 500 µs median" in out.text
    assert "[fail] Mismatch: MISMATCH: reason of MISMATCH" in out.text
    assert "[warn] Unavailable: UNAVAILABLE: reason of UNAVAILABLE" in out.text


def test_nothing_of_a_comparison_is_left_out(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    print_panel(Terminal(), panel)
    text = out.text
    for result in panel.results:
        assert result.title in text
        assert result.outcome is Outcome.OK or f"reason of {result.outcome}" in text
    for line in ("Fastest on this machine (", "Speed improvement: 400x over Slow", "Tie at rank 2: Tied and Also",
                 verdicts.ship(panel), verdicts.lead(panel), verdicts.resolution([panel]),
                 "Slow: other work disturbed it", "97.5 %", "2.718", panel.machine.cpu):  # fmt: skip
        assert line in text
    positions = [
        text.rindex(f"{rank}.  {title}") for rank, title in ((1, "Fast"), (2, "Tied"), (2, "Also"), (4, "Slow"))
    ]
    assert positions == sorted(positions)


def test_work_that_a_delegate_leaves_is_told(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    left = Placement({"AtallaBackend": 2}, (Operators("conv", 3),), (Operators("sort", 1),), flop_coverage=0.25)
    results = [replace(one, placement=left) if one.title == "Slow" else one for one in panel.results]
    print_panel(Terminal(), replace(panel, results=tuple(results)))
    text = " ".join(out.text.split())
    assert (
        "Slow: 75.0 % of the floating point operations run outside of the delegate, on the runtime's plain loops"
        in text
    )
    assert text.count("plain loops") == 1


def test_a_tie_for_the_first_place_names_all(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    tied = tuple(replace(result, rank=1) for result in panel.ranked)
    print_panel(Terminal(), replace(panel, results=tied))
    assert f"Fastest {verdicts.here(panel)}: Fast, Tied, Also and Slow (a tie)" in out.text
    assert "Speed improvement" not in out.text


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"interrupted": True}, "Interrupted: this is what was finished"),
        ({"found_from": None}, "Resolution: unknown, because too little was measured"),
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
    assert f"Fastest {verdicts.here(panel)}: Fast" in out.text


def test_a_study_is_printed_with_the_rows_of_its_page(capsys: pytest.CaptureFixture[str]) -> None:
    results = studies.study()
    print_study(Terminal(), replace(results, finished=False))
    out = capsys.readouterr().out
    assert "Not finished" in out and "reason of UNAVAILABLE" in out
    for panel in results.panels:
        assert all(text in " ".join(out.split()) for text in (verdicts.ship(panel), verdicts.lead(panel)))
    assert verdicts.resolution(results.panels) in out
    shown = views(results)
    for table in (study_tables.overview(shown), *(tables.ranking(view.panel) for view in shown)):
        for row in table.rows:
            cells = [word for cell in row for word in cell.split()]
            assert any(all(word in line for word in cells) for line in out.splitlines()), row
    print_study(Terminal(), replace(results, panels=()))
    assert "No panel was begun" in capsys.readouterr().out


def ranking_of(text: str) -> list[str]:
    """Give the header and the rows of the ranking."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "Performance Ranking:" in line) + 2
    return lines[start : lines.index("", start)]


@pytest.mark.parametrize("tty", [True, False])
def test_80_columns_hold_what_decides(tty: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=tty)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR" if not tty else "LINES", "50")
    panel = studies.panel()
    print_panel(Terminal(), panel)
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.text)
    assert max(map(cell_len, text.splitlines())) <= 80
    header, *rows = ranking_of(text)
    assert header.split() == ["Backend", "ratio", "median", "max", "error", "size", "coverage"]
    for row, result in zip(rows, panel.ranked, strict=True):
        assert result.latency_ms is not None
        median = figures.duration(result.latency_ms.value, result.latency_ms)
        assert result.title in row and figures.ratio(result.ratio).split()[0] in row and median in row
    assert [line.index("[") for line in rows[1:]] == [rows[1].index("[")] * (len(rows) - 1), "brackets are aligned"


@pytest.mark.parametrize("width", [34, 40, 50, 60, 70, 90, 100, 120, 160])
def test_no_number_is_broken_at_any_width(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    monkeypatch.setenv("COLUMNS", str(width))
    panel = studies.with_task(studies.panel())
    long = tuple(replace(r, title=f"{r.title} (of a vendor, on a device)") for r in panel.results)
    print_panel(Terminal(), replace(panel, results=long))
    table = ranking_of(out.text)
    assert max(map(len, table)) <= width
    whole = {cell for row in tables.ranking(panel).rows for cell in row}
    for result in panel.ranked:
        assert re.search(rf"(^|  |\. ).*{re.escape(figures.ratio(result.ratio).partition(' ')[2])}", "\n".join(table))
    for line in table[1:]:
        for bracket in re.findall(r"[\d.,]+ +\[[^\]]*\]", line):
            assert " ".join(bracket.split()) in whole


def test_wide_terminals_have_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    print_panel(Terminal(), studies.panel())
    header = ranking_of(out.text)[0]
    assert all(name in header for name in tables.RANKING)


def test_what_an_interrupt_left_is_not_measured_and_has_no_medal(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=True)
    late = Result("net", "late", "Late", Outcome.NOT_MEASURED, INTERRUPTED)
    rows = [replace(result, rank=None, ratio=None, unranked=INTERRUPTED) for result in panel.ranked]
    rows[0] = replace(rows[0], latency=None, latency_ms=None, mean_ms=None)
    print_panel(Terminal(), replace(panel, results=(*rows, late), interrupted=True))
    assert "Fast: verified, not measured (interrupted)" in out.text
    assert "Slow: 204 ms avg, 200 ms median; no rank: interrupted" in out.text
    assert "Late: NOT_MEASURED: interrupted" in out.text and "RUN_FAIL" not in out.text
    advice = f"🎯 Ship none yet: the comparison {verdicts.here(panel)} was interrupted before 5 of 5 targets"
    assert advice in " ".join(out.text.split())
    assert not any(text in out.text for text in ("🥇", "🏃", "⚡", "No difference"))


def test_a_reason_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    out, _ = streams(monkeypatch, tty=False)
    panel = studies.panel(targets=1)
    absent = [Result("net", name, name, Outcome.UNAVAILABLE, "there is no NVIDIA driver") for name in ("CUDA", "TRT")]
    print_panel(Terminal(), replace(panel, results=(*panel.results, *absent)))
    assert "[warn] CUDA, TRT: UNAVAILABLE: there is no NVIDIA driver.\n" in out.text
    assert out.text.count("NVIDIA driver") == 1


def test_print_of_a_panel_is_its_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    panel = studies.panel()
    text = str(panel)
    assert len(ranking_of(text)) == 8 and verdicts.ship(panel) in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text
    assert repr(panel).startswith("Panel(workload=")
    assert "threads not recorded" in str(replace(panel, settings={})), "no panel is too bare to be printed"


def test_print_of_a_study_is_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    results = studies.study()
    text = str(results)
    assert text.count("* Ranking: ") == 4 and "Without a rank, and why" in text
    assert str(Results(results)) == text
