"""Plots: the two layouts that all charts use, lines over two axes and labelled rows over one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cross_backend.report.charts.scales import Scale, scale, tick_text
from cross_backend.report.charts.svg import Drawing, width_of
from cross_backend.report.looks import Look, kind
from cross_backend.report.tables import Table

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, NARROW = 640, 360
"""Widths of a drawing for a desk and for a phone."""
_paper: ContextVar[int] = ContextVar("paper", default=WIDTH)
_RIGHT, _TOP, _HEIGHT, _BOTTOM, _LEGEND_ROW, _ROW = 18, 10, 250, 48, 18, 26
_LABEL_ROW = 16
"""Height of a name above its row."""
_LABELS = 210
"""Most room that the names of rows get."""


@dataclass(frozen=True)
class Chart:
    """A picture and the numbers in it."""

    title: str
    svg: Markup
    data: Table
    note: str = ""
    """What a reader must know to read it."""
    panel: str = ""
    """Key of the panel that it belongs to; empty where it shows several."""
    narrow: Markup | None = None
    """The same for a phone: fewer ticks, names inside."""


def for_both(draw: Callable[[], Iterable[Chart | None]]) -> tuple[Chart, ...]:
    """Draw charts for a desk and for a phone; what draws them asks :func:`paper` for the width."""
    wide = [chart for chart in draw() if chart is not None]
    token = _paper.set(NARROW)
    try:
        narrow = [chart for chart in draw() if chart is not None]
    finally:
        _paper.reset(token)
    return tuple(replace(one, narrow=other.svg) for one, other in zip(wide, narrow, strict=True))


def paper() -> int:
    """Return the width of what is drawn."""
    return _paper.get()


def _few() -> int:
    """Return about how many ticks the lower axis has."""
    return 7 if paper() == WIDTH else 4


@dataclass(frozen=True)
class Axis:
    """One axis of a plot."""

    label: str
    """What it measures, with its unit."""
    log: bool = False
    ticks: tuple[float, ...] = ()
    """Where the ticks are; chosen where empty."""
    ends: tuple[float, float] | None = None
    """Fixed lower and upper end; from the values where None."""
    zero: bool = False
    """Whether it begins at zero."""
    percent: bool = False
    """Whether values are shares, shown as percentages."""
    negated: bool = False
    """Whether values are negated, so that the smallest is the highest; labels show the values themselves."""

    def scale(self, values: Sequence[float], start: float, end: float) -> Scale:
        """Return the map of this axis for these values."""
        if self.ends is not None:
            return Scale(*self.ends, start, end, self.log)
        return scale(values, start, end, log=self.log, zero=self.zero)

    def text(self, value: float) -> str:
        """Return a tick's label."""
        value = -value if self.negated else value
        return f"{tick_text(round(value * 100, 6))} %" if self.percent else tick_text(value)


@dataclass(frozen=True)
class Point:
    """One point of a line."""

    x: float
    y: float
    low: float | None = None
    """Lower end of its interval; None where it has none."""
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    label: str
    look: Look
    points: tuple[Point, ...]
    marked: tuple[Point, ...] = ()
    """Points that carry markers; all of them where ``step`` is off."""
    step: bool = False
    """Whether it is drawn as stairs."""


def line_plot(title: str, description: str, series: Sequence[Series], x: Axis, y: Axis) -> Markup:
    """Draw lines over two axes, with markers, intervals and a legend."""
    width = paper()
    columns = 2 if len(series) > 1 and width == WIDTH else 1
    legend = -(-len(series) // columns) * _LEGEND_ROW
    drawing = Drawing(title, description, width, _TOP + _HEIGHT + _BOTTOM + legend)
    points = [point for row in series for point in (*row.points, *row.marked)]
    heights = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    ys = y.scale(heights, _TOP + _HEIGHT, _TOP)
    texts = [y.text(tick) for tick in y.ticks or ys.ticks()]
    left = 30 + max([width_of(text) for text in texts], default=30)
    xs = x.scale([p.x for p in points], left, width - _RIGHT)
    axes(drawing, xs, ys, x, y)
    for row in series:
        drawing.path(
            [(xs(p.x), ys(p.y)) for p in row.points], f"line {row.look.line}", step=row.step
        )  # fmt: skip
        for p in row.marked if row.step else row.points:
            if p.low is not None and p.high is not None:
                drawing.line(xs(p.x), ys(p.low), xs(p.x), ys(p.high), f"bar s{row.look.colour}")
            drawing.marker(xs(p.x), ys(p.y), row.look, p.tip or f"{row.label}: {y.text(p.y)} at {x.text(p.x)}")
    room = (width - _RIGHT - 12) / columns
    for index, row in enumerate(series):
        at_x = 12 + room * (index % columns)
        at_y = _TOP + _HEIGHT + _BOTTOM + 8 + _LEGEND_ROW * (index // columns)
        drawing.line(at_x, at_y - 4, at_x + 30, at_y - 4, f"line {row.look.line}")
        drawing.marker(at_x + 15, at_y - 4, row.look)
        drawing.text(at_x + 38, at_y, row.label, room=room - 50)
    return drawing.markup()


def axes(drawing: Drawing, xs: Scale, ys: Scale, x: Axis, y: Axis) -> None:
    """Draw grid, ticks and names of both axes."""
    for tick in x.ticks or tuple(xs.ticks(_few())):
        drawing.line(xs(tick), ys.start, xs(tick), ys.end, "grid")
    _x_axis(drawing, xs, x, ys.start)
    for tick in y.ticks or tuple(ys.ticks()):
        drawing.line(xs.start, ys(tick), xs.end, ys(tick), "grid")
        drawing.text(xs.start - 6, ys(tick) + 4, y.text(tick), "tick", anchor="end")
    drawing.line(xs.start, ys.start, xs.start, ys.end, "axis")
    drawing.upright(14, (ys.start + ys.end) / 2, y.label, "label")


def _x_axis(drawing: Drawing, xs: Scale, x: Axis, at: float) -> None:
    """Draw the lower axis; a tick's label that would touch the one before it is left out."""
    free = float("-inf")
    for tick in x.ticks or tuple(xs.ticks(_few())):
        text = x.text(tick)
        half = width_of(text) / 2
        drawing.line(xs(tick), at, xs(tick), at + 4, "axis")
        if xs(tick) - half >= free:
            drawing.text(min(xs(tick), drawing.width - half), at + 17, text, "tick", anchor="middle")
            free = xs(tick) + half + 6
    drawing.line(xs.start, at, xs.end, at, "axis")
    drawing.text((xs.start + xs.end) / 2, at + 36, x.label, "label", anchor="middle")


@dataclass(frozen=True)
class Rows:
    """Labelled rows over one axis, ready for marks."""

    drawing: Drawing
    x: Scale
    middles: tuple[float, ...]
    """Where the middle of each row is."""
    top: float
    bottom: float


def row_plot(
    title: str,
    description: str,
    labels: Sequence[str],
    x: Axis,
    values: Sequence[float],
    *,
    legend: Sequence[str] = (),
    notes: Sequence[str] = (),
    row: float = _ROW,
    patterned: bool = False,
) -> Rows:
    """Draw the frame of rows: names on the left, grid, axis, and notes on the right.

    Args:
        title: accessible name.
        description: what a reader who does not see it is told.
        labels: names of the rows, topmost first.
        x: axis.
        values: all that must be inside.
        legend: names of the kinds of marks, in the order of their slots.
        notes: texts behind the rows.
        row: height of a row.
        patterned: whether the legend shows hatched boxes and not markers.
    """
    width = paper()
    inside = width < WIDTH  # names stand above their rows
    row += _LABEL_ROW if inside else 0
    left = 14 + (0 if inside else min(_LABELS, max([width_of(label) for label in labels], default=0)))
    right = _RIGHT + max([width_of(note) for note in notes], default=0)
    places = _legend_places(legend, width)
    head = _TOP + (places[-1][1] + _LEGEND_ROW if places else 0)
    bottom = head + row * len(labels)
    drawing = Drawing(title, description, width, bottom + _BOTTOM)
    xs = x.scale(values, left, width - right)
    for tick in x.ticks or tuple(xs.ticks(_few())):
        drawing.line(xs(tick), head, xs(tick), bottom, "grid")
    _x_axis(drawing, xs, x, bottom)
    for index, (name, (at_x, at_y)) in enumerate(zip(legend, places, strict=True)):
        if patterned:
            drawing.rect(at_x, _TOP + at_y, 18, 12, f"segment h{index}")
        else:
            drawing.marker(at_x + 9, _TOP + at_y + 6, kind(index))
        drawing.text(at_x + 24, _TOP + at_y + 10, name)
    middles = tuple(head + row * (index + 0.5) + (_LABEL_ROW / 2 if inside else 0) for index in range(len(labels)))
    for label, middle in zip(labels, middles, strict=True):
        if inside:
            drawing.text(left, middle - row / 2 + 6, label, room=width - left - _RIGHT)
        else:
            drawing.text(left - 8, middle + 4, label, anchor="end", room=_LABELS)
    for note, middle in zip(notes, middles, strict=False):
        drawing.text(width - right + 8, middle + 4, note, "tick")
    return Rows(drawing, xs, middles, head, bottom)


def _legend_places(names: Sequence[str], width: float) -> list[tuple[float, float]]:
    """Put names beside each other, from the left, in as many lines as they need."""
    places: list[tuple[float, float]] = []
    x, y = 12.0, 0.0
    for name in names:
        room = 24 + width_of(name) + 16
        if x + room > width and x > 12:
            x, y = 12.0, y + _LEGEND_ROW
        places.append((x, y))
        x += room
    return places
