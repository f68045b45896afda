"""Terminal: what the commands print; emoji and colour go away for pipes and NO_COLOR."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from cross_backend.foreign_text import plain
from cross_backend.records import Timing
from cross_backend.report import fitting, tables
from cross_backend.report.progress import Lines, Show, bars

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod

_PLAIN_WIDTH = 200
_PLAIN = {
    "✅": "[ok]", "❌": "[fail]", "⚠️": "[warn]", "🥇": "1.", "🥈": "2.", "🥉": "3.",
    "📊": "*", "🏆": "*", "📈": "*", "🚀": "*",
    "🏃": "-", "⚡": "-", "⚖️": "-", "🎯": "-", "⏱️": "-", "📦": "*", "❓": "[?]", "🔍": "-",
}  # fmt: skip
_MARK = re.compile(r" *(?:(\[\w+\]|[-*•]|\d\.|[^\w\s'\"(\[]+)\s+)?")
"""What stands before the first word of a line: spaces and a mark."""


class Terminal:
    """Standard output for results, standard error for progress and complaints."""

    def __init__(self, *, quiet: bool = False, into: TextIO | None = None, width: int | None = None) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        stream = into or sys.stdout
        self.fancy = fancy(stream)
        self.out = _console(stream, self.fancy, width or _width(stream))
        self._bounded = width is not None or _bounded(stream)
        self.err = _console(sys.stderr, fancy(sys.stderr), None)
        self.quiet = quiet

    @property
    def width(self) -> int | None:
        """Characters of a line; None for a pipe whose reader asks for no width."""
        return self.out.width if self._bounded else None

    def text(self, line: str = "", style: str | None = None) -> None:
        """Print one line, folded between words; where emoji are off, words stand for them."""
        shown = _shown(line, self.fancy)
        for part in fitting.folded(shown, self.width, _below(shown)) if self.width else [shown]:
            self.out.print(part, style=style, soft_wrap=True)

    def piece(self, text: str) -> None:
        """Print a piece of a text at once, without a line's end; its own line ends stay."""
        if not self.quiet:
            self.out.print("\n".join(map(plain, text.split("\n"))), end="", soft_wrap=True)
            self.out.file.flush()

    def table(
        self,
        headers: Sequence[str],
        rows: Sequence[Sequence[str]],
        right: Sequence[int] = (),
        whole: Sequence[int] = (),
        also: Sequence[str] = (),
    ) -> None:
        """Print as many columns as there is room for, see :mod:`~cross_backend.report.fitting`.

        Args:
            headers: of the columns.
            rows: cells.
            right: columns of numbers, which stand on the right and never fold.
            whole: further columns that never fold.
            also: headers of further columns that the table can do without.
        """
        from rich.table import Table as Grid

        heads, *body = [tuple(_shown(cell, self.fancy) for cell in row) for row in (headers, *rows)]
        asked = tables.Table("", heads, tuple(body), tuple(right))
        fitted = fitting.fit(asked, self.out.width, whole, also)
        if fitted is None:
            for line in fitting.stacked(asked, self.out.width):
                self.out.print(line, soft_wrap=True)
            return
        shown = Grid(box=None, header_style="bold", pad_edge=False, padding=(0, fitting.GAP, 0, 0))
        for index, (head, width) in enumerate(zip(fitted.table.headers, fitted.widths, strict=True)):
            side: JustifyMethod = "right" if index in fitted.table.numeric else "left"
            shown.add_column(head, justify=side, width=width, overflow="fold")
        for row in fitted.table.rows:
            shown.add_row(*row)
        self.out.print(shown, crop=False)

    def note(self, line: str) -> None:
        """Print one line of progress to standard error."""
        if not self.quiet:
            shown = _shown(line, fancy(sys.stderr))
            for part in fitting.folded(shown, self.err.width, _below(shown)) if _bounded(sys.stderr) else [shown]:
                self.err.print(part, soft_wrap=True)

    @property
    def has_bars(self) -> bool:
        """Whether progress is shown as bars that move; else as lines."""
        return fancy(sys.stderr)

    @contextmanager
    def progress(self) -> Iterator[Show]:
        """Return what shows progress: bars, or one plain line for each finished key where there are no colours."""
        if self.quiet:
            yield Show()
        elif not self.has_bars:
            yield Lines(self.note)
        else:
            with bars(self.err) as show:
                yield show


def _below(text: str) -> int:
    """Return how far the lines below the first are indented: to its first word, or by two after a longer mark."""
    mark = _MARK.match(text)
    assert mark is not None, "it matches anything"
    indent = len(text) - len(text.lstrip(" "))
    return indent + (0 if not mark[1] else 2 if mark[1].isascii() else 3)


def _bounded(stream: TextIO) -> bool:
    return stream.isatty() or _columns() is not None


def _columns() -> int | None:
    """Return how long lines may be by ``COLUMNS``."""
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and int(asked) > 0 else None


def _width(stream: TextIO) -> int | None:
    """Return how long lines of tables may be: the terminal says it itself, for pipes ``COLUMNS`` does."""
    return None if stream.isatty() else _columns() or _PLAIN_WIDTH


def _console(stream: TextIO, colours: bool, width: int | None) -> Console:
    from rich.console import Console

    return Console(file=stream, force_terminal=colours, width=width, highlight=False, markup=False, emoji=False)


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
