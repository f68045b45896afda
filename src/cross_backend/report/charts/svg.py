"""SVG: marks on paper as markup; whatever a mark shows, its numbers are finite and its texts are escaped."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable
from html import escape as escape_markup

from markupsafe import Markup

from cross_backend.foreign_text import plain
from cross_backend.report.looks import Look

FONT = 12
"""Size of letters, in units of the drawing."""
_MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",  # circle
    "M-3.6 -3.6h7.2v7.2h-7.2z",  # square
    "M0 -4.8L4.6 3.4H-4.6z",  # triangle
    "M0 -5.2L5.2 0L0 5.2L-5.2 0z",  # diamond
    "M0 4.8L4.6 -3.4H-4.6z",  # triangle, downwards
    "M-1.6 -5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z",  # plus
    "M-5 -3L-3 -5L0 -2L3 -5L5 -3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0z",  # cross
    "M-5 -2.6L0 -5L5 -2.6V2.6L0 5L-5 2.6z",  # hexagon
)


def number(value: float) -> str:
    """Return a coordinate as text.

    Raises:
        ValueError: it is not finite, which no viewer could draw.
    """
    if not math.isfinite(value):
        raise ValueError(f"a coordinate is {value}")
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def width_of(text: str) -> float:
    """Estimate how wide a text is drawn; what draws it decides on the font, so this errs to the wide side."""
    return sum(_width(letter) for letter in text) * FONT


def _width(letter: str) -> float:
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.15
    return 0.9 if letter in "mwMW@%" else 0.35 if letter in "iljt.,:;|'! " else 0.62


def shortened(text: str, room: float) -> str:
    """Cut the middle out of a text that would be wider than ``room``: names differ at both ends."""
    if len(text) < room / FONT / 1.15 or (len(text) < room and width_of(text) <= room):
        return text
    left, right, free = 0, len(text), room / FONT - _width("…")
    while left < right:
        letter = text[left] if left <= len(text) - right else text[right - 1]
        free -= _width(letter)
        if free < 0:
            break
        if left <= len(text) - right:
            left += 1
        else:
            right -= 1
    return f"{text[:left]}…{text[right:]}"


class Drawing:
    """A picture that grows mark by mark; colours come from the page's style sheet, by class.

    Marks are joined as plain texts, which is several times faster than building markup of each; so every method must
    pass what is not its own through ``number`` or ``escape``.
    """

    def __init__(self, title: str, description: str, width: float, height: float) -> None:
        self.width, self.height = width, height
        self._parts = [f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"]

    def markup(self) -> Markup:
        """Return the whole ``<svg>``."""
        width, height = number(self.width), number(self.height)
        head = f'<svg class="chart" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        return Markup("".join([head, *self._parts, "</svg>"]))  # noqa: S704  every part is escaped where it is made

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """Draw a straight line."""
        start, end = f'x1="{number(x1)}" y1="{number(y1)}"', f'x2="{number(x2)}" y2="{number(y2)}"'
        self._parts.append(f'<line {start} {end} class="{kind}"/>')

    def path(
        self, points: Iterable[tuple[float, float]], kind: str, *, step: bool = False, closed: bool = False
    ) -> None:
        """Draw a line through points, as stairs (first across, then up) where ``step``; fill it where ``closed``."""
        words: list[str] = []
        for x, y in points:
            if not words:
                words.append(f"M{number(x)} {number(y)}")
            elif step:
                words.append(f"H{number(x)}V{number(y)}")
            else:
                words.append(f"L{number(x)} {number(y)}")
        self._parts.append(f'<path d="{"".join(words)}{"Z" if closed else ""}" class="{kind}"/>')

    def rect(self, x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> None:
        """Draw a rectangle; ``tip`` is shown when it is pointed at."""
        size = f'width="{number(max(width, 0.0))}" height="{number(max(height, 0.0))}"'
        self._parts.append(f'<rect x="{number(x)}" y="{number(y)}" {size} class="{kind}">{_tip(tip)}</rect>')

    def text(self, x: float, y: float, text: str, kind: str = "", *, anchor: str = "start", room: float = 0) -> None:
        """Write a text on the line at ``y``, cut to ``room`` where that is given; its tip then has all of it."""
        shown = shortened(text, room) if room else text
        place = f'x="{number(x)}" y="{number(y)}" class="{kind}" text-anchor="{anchor}"'
        self._parts.append(f"<text {place}>{escape(shown)}{_tip(text if shown != text else '')}</text>")

    def upright(self, x: float, y: float, text: str, kind: str = "") -> None:
        """Write a text from bottom to top, centred on a point."""
        place = f'transform="translate({number(x)} {number(y)}) rotate(-90)" class="{kind}" text-anchor="middle"'
        self._parts.append(f"<text {place}>{escape(text)}</text>")

    def marker(self, x: float, y: float, look: Look, tip: str = "") -> None:
        """Draw the marker of a look on a point."""
        shape, place = _MARKERS[look.form], f"translate({number(x)} {number(y)})"
        self._parts.append(f'<path d="{shape}" transform="{place}" class="mark s{look.colour}">{_tip(tip)}</path>')


def escape(text: str) -> str:
    """Return a text as markup that shows it as it is."""
    return escape_markup(plain(text))


def _tip(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""


def key(look: Look) -> Markup:
    """Return the line and the marker of a look, to stand before a target's name."""
    return Markup(
        '<svg class="chart key" viewBox="0 0 28 12" aria-hidden="true"><path d="M0 6H28" class="line {}"/>'
        '<path d="{}" transform="translate(14 6)" class="mark s{}"/></svg>'
    ).format(look.line, _MARKERS[look.form], look.colour)


def hatches() -> Markup:
    """Return the fills of the series, which all charts of a page share: a colour under a hatch of its own each."""
    strokes = ("", "M0 8L8 0", "M0 4H8", "M0 0L8 8", "M4 0V8", "M0 4H8M4 0V8", "M0 0L8 8M0 8L8 0", "M2 2h2v2h-2z")
    patterns = [
        Markup(
            '<pattern id="hatch-{}" width="8" height="8" patternUnits="userSpaceOnUse">'
            '<rect width="8" height="8" class="fill s{}"/><path d="{}" class="hatch"/></pattern>'
        ).format(slot, slot, stroke)
        for slot, stroke in enumerate(strokes)
    ]
    head = Markup('<svg class="hatches" width="0" height="0" aria-hidden="true"><defs>')
    return head + Markup("").join(patterns) + Markup("</defs></svg>")
