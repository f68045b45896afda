"""Fitting: which columns of a table a line has room for, and how wide each is; every table of a terminal asks here."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cross_backend.report.tables import OUTPUT, Table

GAP = 2
"""Spaces between columns."""
COMFORTABLE = 24
"""Columns of text fold to this width before another column goes for them."""
EXPENDABLE = (
    *("average", "runs", "load", "SQNR dB", "95 % interval", "coverage", OUTPUT, "size", "max error"),  # a ranking
    *("ranked", "speedup", "smallest detectable difference", "ratio of the next"),  # an overview
    *("delegates", "samples", "launches", "machine", "options", "life-cycle", "licence", "source", "FLOPs"),
    *("parameters", "family", "on this machine", "kind"),
)
"""Headers of the columns that a narrow terminal goes without, the first of them first."""
LAST = ("median",)
"""These go after what a table itself names, its task metrics."""
PLACES = ("threads", "batch")
"""These are the first to go where they are the same in all rows; else they say which row it is, and stay."""


@dataclass(frozen=True)
class Fitted:
    """A table with the columns that fit."""

    table: Table
    widths: tuple[int, ...]
    """Of the columns, in characters."""


def fit(table: Table, width: int, whole: Iterable[int] = (), also: Sequence[str] = ()) -> Fitted | None:
    """Choose the columns of a table and their widths, so that no word and no number is broken.

    Args:
        table: what is to be shown.
        width: characters of a line.
        whole: columns that never fold, beside those of numbers.
        also: headers of further columns that it can do without, after :data:`EXPENDABLE`.

    Returns:
        None where not even the columns that decide fit side by side.
    """
    bounds = [_bounds(table, index, {*table.numeric, *whole}) for index in range(len(table.headers))]
    kept = list(range(len(bounds)))

    def excess(kind: int) -> int:
        return sum(bounds[index][kind] for index in kept) + GAP * (len(kept) - 1) - width

    same = [h for i, h in enumerate(table.headers) if h in PLACES and len({row[i] for row in table.rows}) == 1]
    for header in (*same, *EXPENDABLE, *also, *LAST):
        if excess(1) <= 0:
            break
        kept = [index for index in kept if table.headers[index] != header]
    if excess(0) > 0:
        return None
    least = 1 if excess(1) <= 0 else 0
    room = -excess(least)
    widths = {index: bounds[index][least] for index in kept}
    for place, index in enumerate(sorted(kept, key=lambda index: bounds[index][2] - bounds[index][least])):
        more = min(bounds[index][2] - widths[index], room // (len(kept) - place))
        widths[index] += more
        room -= more
    return Fitted(table.only(kept), tuple(widths[index] for index in kept))


def _bounds(table: Table, index: int, whole: set[int]) -> tuple[int, int, int]:
    """Return the least width of a column, the least that reads well, and the one in which nothing folds."""
    header, cells = table.headers[index], [row[index] for row in table.rows]
    natural, body = widest([header, *cells]), widest(cells)
    word = widest(word for text in (header, *(() if index in whole else cells)) for word in text.split())
    if index in whole:
        return max(body, word), max(body, word), natural
    return word, max(word, min(natural, COMFORTABLE)), natural


def widest(texts: Iterable[str]) -> int:
    """Return how many cells of a terminal the longest line takes."""
    from rich.cells import cell_len

    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)


def folded(text: str, width: int, below: int = 0) -> list[str]:
    """Return a text as lines that break between words only.

    Args:
        text: one line.
        width: characters of a line; a longer word has a line of its own.
        below: spaces before every line but the first.
    """
    if widest([text]) <= width:
        return [text]
    wide = widest([text]) - len(text)  # a mark takes two cells
    return textwrap.wrap(
        text,
        max(width - wide, below + 10),
        subsequent_indent=" " * below,
        break_long_words=False,
        break_on_hyphens=False,
    )


def stacked(table: Table, width: int) -> list[str]:
    """Return a table as lines, a block for each row: its first cells, then a line for each other cell."""
    first = 1 if table.headers[0] or len(table.headers) == 1 else 2  # a rank stands before its name
    lines = []
    for row in table.rows:
        lines += folded(" ".join(filter(None, row[:first])), width, 2)
        for header, text in zip(table.headers[first:], row[first:], strict=True):
            if text:
                lines += folded(f"  {header}: {' '.join(text.split())}" if header else f"  {text}", width, 4)
    return lines
