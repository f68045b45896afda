"""Terminal: what the commands print; emoji and colour go away for pipes and NO_COLOR."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TextIO

from cross_backend.foreign_text import plain
from cross_backend.records import Timing
from cross_backend.report import tables

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

_PLAIN_WIDTH = 200
_PLAIN = {
    "✅": "[ok]", "❌": "[fail]", "⚠️": "[warn]", "🥇": "1.", "🥈": "2.", "🥉": "3.",
    "📊": "*", "🏆": "*", "📈": "*", "🚀": "*",
    "🏃": "-", "⚡": "-", "⚖️": "-", "🎯": "-", "⏱️": "-", "📦": "*", "❓": "[?]", "🔍": "-",
}  # fmt: skip


class Terminal:
    """Standard output for results, standard error for progress and complaints."""

    def __init__(self, *, quiet: bool = False, into: TextIO | None = None) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        stream = into or sys.stdout
        self.fancy = fancy(stream)
        self.out = _console(stream, self.fancy, _width(stream))
        self.err = _console(sys.stderr, fancy(sys.stderr), None)
        self.quiet = quiet

    def text(self, line: str = "", style: str | None = None) -> None:
        """Print one line; where emoji are off, words stand for them."""
        self.out.print(_shown(line, self.fancy), style=style, soft_wrap=True)

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[int] = (),
        whole: Sequence[int] = (),
    ) -> None:
        """Print aligned columns; those in ``right`` are numbers.

        Texts fold where there is little room; numbers and the columns in ``whole`` never do: before, their headers
        fold, and then lines are longer than the terminal.
        """
        from rich.table import Table

        heads, *body = [[_shown(cell, self.fancy) for cell in row] for row in (headers, *rows)]
        unbroken = {*right, *whole}
        least = [_widest(column) for column in zip(*body, strict=True)] if body else [0] * len(heads)
        natural = [max(width, _widest([head])) for width, head in zip(least, heads, strict=True)]
        if sum(natural) + tables.GAP * (len(heads) - 1) > self.out.width:
            for index in unbroken:
                heads[index] = "\n".join(textwrap.wrap(heads[index], max(least[index], 1)))
            least = [width if i in unbroken else min(width, tables.FOLDED_WIDTH) for i, width in enumerate(least)]
        needed = sum(least) + tables.GAP * (len(heads) - 1)
        shown = Table(
            box=None,
            header_style="bold",
            pad_edge=False,
            padding=(0, tables.GAP, 0, 0),
            width=needed if needed > self.out.width else None,
        )
        for index, head in enumerate(heads):
            side: JustifyMethod = "right" if index in right else "left"
            shown.add_column(head, justify=side, no_wrap=index in unbroken, overflow="fold")
        for row in body:
            shown.add_row(*row)
        self.out.print(shown, crop=False)

    def note(self, line: str) -> None:
        """Print one line of progress to standard error."""
        if not self.quiet:
            self.err.print(_shown(line, fancy(sys.stderr)), soft_wrap=True)

    @property
    def has_bars(self) -> bool:
        """Whether progress is shown as bars that move; else as lines."""
        return fancy(sys.stderr)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, str, float | None], None]]:
        """Return ``show(key, text, share)``: a line per key with its elapsed time; ``share`` 1 ends it, None spins.

        Where standard error has no colours, each finished key is one plain line.
        """
        if self.quiet:
            yield lambda _key, _text, _share: None
        elif not self.has_bars:
            yield lambda _key, text, share: self.note(text) if share == 1 else None
        else:
            with _bars(self.err) as show:
                yield show


def _widest(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)


def _width(stream: TextIO) -> int | None:
    """Return how long lines may be: the terminal says it itself, for pipes ``COLUMNS`` does."""
    if stream.isatty():
        return None
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else _PLAIN_WIDTH


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
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        Elapsed(),
        Left(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def show(key: str, text: str, share: float | None) -> None:
            text = plain(text)
            if key not in tasks:
                tasks[key] = bars.add_task(text, total=None)
            if share is None:
                bars.update(tasks[key], description=text)
            else:
                bars.update(tasks[key], description=text, total=1.0, completed=share)

        yield show


def _shown(text: str, fancy: bool) -> str:
    """Return a text as it is printed: no terminal obeys what is in it, and where emoji are off words stand for them."""
    text = plain(text)
    for emoji, word in () if fancy else _PLAIN.items():
        text = text.replace(emoji, word)
    return text


def fancy(stream: Any) -> bool:
    """Whether a stream gets colours and emoji: a terminal, and NO_COLOR is not set (https://no-color.org)."""
    encoding = (getattr(stream, "encoding", None) or "").lower().replace("-", "")
    return (
        bool(stream.isatty())
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
        and encoding == "utf8"
    )


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
