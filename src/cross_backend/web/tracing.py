"""Tracing: the chart of one target's way through the studies of a name, with its change points."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.report.charts.plots import Axis, Chart, Point, Series, line_plot
from cross_backend.report.looks import Look, look_of
from cross_backend.report.tables import NONE, Table, milliseconds
from cross_backend.study.history import Moment

CHANGED = Look(6, 3)
"""Change points: red diamonds."""


def history_chart(title: str, target: str, moments: Sequence[Moment]) -> Chart:
    """Draw the medians with their intervals; change points carry markers."""
    points, marked = [], []
    for place, moment in enumerate(moments, 1):
        latency = moment.latency_ms
        if latency is None:
            continue
        tip = f"study {moment.study}, {moment.started[:10]}: {milliseconds(latency.value)} ms"
        point = Point(float(place), latency.value, latency.low, latency.high, tip)
        points.append(point)
        if moment.changed:
            marked.append(Point(point.x, point.y, None, None, f"{tip}, {_change(moment)}"))
    series = [Series("median", look_of(target), tuple(points))]
    if marked:
        series.append(Series("change point", CHANGED, (), tuple(marked), step=True))
    ticks = tuple(float(place) for place in range(1, len(moments) + 1))
    x = Axis("study, in the order in which they were begun", ticks=ticks if len(ticks) <= 20 else ())
    svg = line_plot(title, "Lower is faster.", series, x, Axis("median latency, ms", zero=True))
    headers = ("study", "started", "outcome", "ms", "low", "high", "change", "")
    rows = tuple(_row(moment) for moment in moments)
    note = "With 95 % intervals. A change point is what neither chance nor this machine explains."
    return Chart(title, svg, Table(title, headers, rows, (0, 3, 4, 5, 6)), note)


def _row(moment: Moment) -> tuple[str, ...]:
    latency = moment.latency_ms
    figures = (NONE,) * 3 if latency is None else tuple(map(milliseconds, (latency.value, latency.low, latency.high)))
    mark = "change point" if moment.changed else ""
    return (
        str(moment.study),
        moment.started[:19].replace("T", " "),
        str(moment.outcome),
        *figures,
        _change(moment),
        mark,
    )


def _change(moment: Moment) -> str:
    return NONE if moment.change is None else f"{(moment.change.value - 1) * 100:+.1f} %"
