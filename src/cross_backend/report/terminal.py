"""Terminal: what the commands print; emoji and colour go away for pipes and NO_COLOR."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO

from cross_backend.records import Outcome, Panel, StudyResults, Timing
from cross_backend.report import circumstances, study_tables, tables
from cross_backend.report.views import view, views

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 200
_PLAIN = {
    "✅": "[ok]", "❌": "[fail]", "⚠️": "[warn]", "🥇": "1.", "🥈": "2.", "🥉": "3.",
    "📊": "*", "🏆": "*", "📈": "*", "🚀": "*",
    "🏃": "-", "⚡": "-", "⚖️": "-", "🎯": "-", "⏱️": "-", "📦": "*",
}  # fmt: skip
_MEDALS = {1: "🥇", 2: "🥈", 3: "🥉"}


class Terminal:
    """Standard output for results, standard error for progress and complaints."""

    def __init__(self, *, quiet: bool = False) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        self.fancy = fancy(sys.stdout)
        width = None if sys.stdout.isatty() else _PLAIN_WIDTH
        self.out = _console(sys.stdout, self.fancy, width)
        self.err = _console(sys.stderr, fancy(sys.stderr), None)
        self.quiet = quiet

    def text(self, line: str = "", style: str | None = None) -> None:
        """Print one line; where emoji are off, words stand for them."""
        if not self.fancy:
            for emoji, plain in _PLAIN.items():
                line = line.replace(emoji, plain)
        self.out.print(line, style=style, soft_wrap=True)

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
        """Print aligned columns; those in ``right`` are numbers."""
        from rich.table import Table

        shown = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for index, header in enumerate(headers):
            # A cell folds into several lines rather than losing its end.
            shown.add_column(header, justify="right" if index in right else "left", overflow="fold")
        for row in rows:
            shown.add_row(*(self._plain(cell) for cell in row))
        self.out.print(shown)

    def _plain(self, cell: str) -> str:
        return cell if self.fancy else _replace(cell)

    def note(self, line: str) -> None:
        """Print one line of progress to standard error."""
        if not self.quiet:
            self.err.print(line if fancy(sys.stderr) else _replace(line), soft_wrap=True)

    @property
    def has_bars(self) -> bool:
        """Whether progress is shown as bars that move; else as lines."""
        return fancy(sys.stderr)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, str, float | None], None]]:
        """Give ``show(key, text, share)``: a line per key with its elapsed time; ``share`` 1 ends it, None spins.

        Where standard error has no colours, each finished key is one plain line.
        """
        if self.quiet:
            yield lambda _key, _text, _share: None
        elif not self.has_bars:
            yield self._plain_progress
        else:
            with _bars(self.err) as show:
                yield show

    def _plain_progress(self, _key: str, text: str, share: float | None) -> None:
        if share == 1:
            self.note(text)


def _console(stream: TextIO, colours: bool, width: int | None) -> Console:
    from rich.console import Console

    return Console(file=stream, force_terminal=colours, width=width, highlight=False, markup=False, emoji=False)


@contextmanager
def _bars(console: Console) -> Iterator[Callable[[str, str, float | None], None]]:
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TaskID, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.text import Text

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:
            """Tell how long it may take yet, where that is known and the text does not say so itself."""
            known = None if task.finished or task.description.endswith("left)") else task.time_remaining
            return Text("" if known is None else f"about {timedelta(seconds=round(known))} left")

    columns = (
        SpinnerColumn(finished_text=" "),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        Elapsed(),
        Left(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(key: str, text: str, share: float | None) -> None:
            if key not in tasks:
                tasks[key] = bars.add_task(text, total=None)
            if share is None:
                bars.update(tasks[key], description=text)
            else:
                bars.update(tasks[key], description=text, total=1.0, completed=share)

        yield show


def _replace(text: str) -> str:
    for emoji, plain in _PLAIN.items():
        text = text.replace(emoji, plain)
    return text


def fancy(stream: Any) -> bool:
    """Say whether a stream gets colours and emoji: a terminal, and NO_COLOR is not set (https://no-color.org)."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    return (
        bool(stream.isatty())
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
        and encoding == "utf8"
    )


def print_panel(terminal: Terminal, panel: Panel) -> None:
    """Print a comparison: a line per target, the ranking, the summary."""
    settings = panel.settings
    batch = f", batch {panel.batch}" if panel.batch > 1 else ""
    terminal.text(f"🚀 cross-backend: {panel.workload}{batch}", style="bold")
    terminal.text("=" * 55)
    terminal.text(
        f"📊 {panel.machine.cpu}, {settings['threads']} thread(s) each; every output checked against eager float32"
        + (f"; {panel.launches} launches" if panel.launches > 1 else "")
    )
    terminal.text()
    for result in panel.results:
        if result.latency_ms is not None and result.mean_ms is not None:
            median = tables.milliseconds(result.latency_ms.value)
            mark, why = ("✅", "") if result.unranked is None else ("⚠️", f"; no rank: {result.unranked}")
            terminal.text(
                f"{mark} {result.title}: {tables.milliseconds(result.mean_ms)} ms avg, {median} ms median{why}"
            )
        elif result.outcome is Outcome.OK:
            why = f"functional check only: {result.unranked}" if result.unranked else "not measured"
            terminal.text(f"⚠️ {result.title}: verified, {why}")
        else:
            mark = "⚠️" if result.outcome in {Outcome.UNAVAILABLE, Outcome.UNSUPPORTED} else "❌"
            terminal.text(f"{mark} {result.title}: {result.outcome}: {result.reason}")
    terminal.text()
    if panel.ranked:
        _print_ranking(terminal, panel)
        _print_summary(terminal, panel)
    else:
        terminal.text("❌ Nothing could be ranked.")
    if panel.interrupted:
        terminal.text("⚠️ Interrupted: this is what was finished until then.")


def print_profile(terminal: Terminal, rows: Sequence[Timing], runs: int) -> None:
    """Print a profile, most expensive first; of many rows only the first."""
    terminal.text()
    terminal.text(
        f"📊 Profile of {runs} more run{'s' if runs > 1 else ''}, milliseconds per run (profiling slows the program "
        "down: compare these rows with each other, not with the latency above)"
    )
    terminal.table(tables.PROFILE_HEADERS, tables.profile(rows)[: tables.PROFILE_ROWS], right=(2, 3, 4))
    if len(rows) > tables.PROFILE_ROWS:
        terminal.text(f"   … and {len(rows) - tables.PROFILE_ROWS} more; --json has all")


def _print_ranking(terminal: Terminal, panel: Panel) -> None:
    terminal.text("🏆 Performance Ranking:", style="bold")
    terminal.text("-" * 50)
    extra: list[str] = []
    if any(r.sample_output for r in panel.ranked):
        extra.append("output")
    metrics = sorted({name for r in panel.ranked for name in r.task})
    rows = []
    for result, row in zip(panel.ranked, tables.ranking(panel), strict=True):
        medal = _MEDALS.get(result.rank or 0, "📊") if terminal.fancy else f"{result.rank}."
        cells = [", ".join(f"{v:.6f}" for v in result.sample_output)] if extra else []
        cells += [tables.percent(result.task.get(name)) for name in metrics]
        rows.append((medal, *row[1:], *cells))
    headers = (*tables.HEADERS, *extra, *metrics)
    terminal.table(headers, rows, right=range(2, len(headers)))
    terminal.text()


def _print_summary(terminal: Terminal, panel: Panel) -> None:
    terminal.text("📈 Summary:", style="bold")
    first = [r.title for r in panel.ranked if r.rank == 1]
    terminal.text(f"   🏃 Fastest: {' and '.join(first)}{' (a tie)' if len(first) > 1 else ''}")
    gain = tables.speedup(panel)
    if gain is not None:
        terminal.text(f"   ⚡ Speed improvement: {gain[2]:.1f}x over slowest ({gain[1].title})")
    for group in tables.ties(panel):
        terminal.text(f"   ⚖️ Tie at rank {group[0].rank}: {', '.join(r.title for r in group)}")
    terminal.text(f"   🎯 {study_tables.doubt([view(panel)])}")
    for warning in panel.warnings:
        terminal.text(f"   ⚠️ {warning}")
    for result in panel.ranked:
        for warning in result.warnings:
            terminal.text(f"   ⚠️ {result.title}: {warning}")
    terminal.text()


def print_study(terminal: Terminal, results: StudyResults) -> None:
    """Print a study: what cannot be told apart, the fastest of each panel, the ranking, what has no rank and why."""
    shown = views(results)
    terminal.text(f"🚀 cross-backend study: {results.name}", style="bold")
    terminal.text("=" * 55)
    terminal.text(f"📊 {results.machine.cpu}; {study_tables.doubt(shown)}")
    if not results.finished:
        terminal.text("⚠️ Not finished: this is what was measured until now.")
    found = (
        study_tables.overview(shown),
        study_tables.ranked(shown),
        study_tables.stopped(shown),
        circumstances.warnings(shown),
    )
    for table in found:
        if table.rows:
            terminal.text()
            terminal.text(table.title, style="bold")
            terminal.table(table.headers, table.rows, right=table.numeric)
    if not shown:
        terminal.text("❌ No panel was begun.")
