"""Latency charts of one panel: distribution functions, boxes with densities, ratios to the fastest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from cross_backend.report import figures
from cross_backend.report.charts.plots import Axis, Chart, Point, Series, line_plot, row_plot
from cross_backend.report.distributions import MARK_NAMES, MARKS, Distribution
from cross_backend.report.looks import Look
from cross_backend.report.tables import Table, milliseconds
from cross_backend.report.views import Row, View

LATENCY = Axis("latency, ms (logarithmic)", log=True)
_MARKED = (MARKS.index(0.25), MARKS.index(0.5), MARKS.index(0.95), MARKS.index(0.99))


LINES = 8
"""Most lines of one chart that a reader can follow."""


def groups(rows: Sequence[Row], looks: Mapping[str, Look]) -> Iterator[tuple[str, list[tuple[Look, Row]]]]:
    """Part rows into as many as one chart can hold; return each part's title and (look, row)."""
    for start in range(0, len(rows), LINES):
        part = rows[start : start + LINES]
        title = f" ({start + 1} to {start + len(part)} of {len(rows)})" if len(rows) > LINES else ""
        yield title, [(looks[row.result.title], row) for row in part]


def ecdfs(view: View, looks: Mapping[str, Look]) -> list[Chart]:
    """Draw which share of the calls was done by when, a stair per target."""
    charts = []
    for part, rows in groups(view.timed, looks):
        series = [_stairs(look, row) for look, row in rows]
        title = f"Share of calls done in time{part}"
        svg = line_plot(
            f"{title}: {view.label}",
            "Empirical distribution functions: the further left, the faster; the steeper, the steadier.",
            series,
            LATENCY,
            Axis("share of calls", ends=(0.0, 1.0), ticks=(0.0, 0.25, 0.5, 0.75, 1.0), percent=True),
        )
        note = "Further left is faster, steeper is steadier. Marks: P25, P50, P95 and P99."
        charts.append(Chart(title, svg, _marks_table([row for _, row in rows]), note, view.key))
    return charts


def _stairs(look: Look, row: Row) -> Series:
    held = _held(row)
    points = [Point(held.marks[0], 0.0), *(Point(x, y) for x, y in zip(held.values, held.levels, strict=True))]
    marked = tuple(
        Point(held.marks[i], MARKS[i], tip=f"{row.label}: {MARK_NAMES[i]} {milliseconds(held.marks[i])} ms")
        for i in _MARKED
    )
    return Series(row.label, look, tuple(points), marked, step=True)


def _held(row: Row) -> Distribution:
    assert row.distribution is not None
    return row.distribution


def _marks_table(rows: Sequence[Row]) -> Table:
    return Table(
        "Latency, ms",
        ("backend", *MARK_NAMES, "runs"),
        tuple((row.label, *map(milliseconds, _held(row).marks), f"{_held(row).count:,}") for row in rows),
        tuple(range(1, len(MARK_NAMES) + 2)),
    )


def boxes(view: View, looks: Mapping[str, Look]) -> Chart | None:
    """Draw a box and a density for each target."""
    rows = view.timed
    if not rows:
        return None
    title = "Latency by target"
    frame = row_plot(
        f"{title}: {view.label}",
        "A box from P25 to P75 with the median, a line from P5 to P95, dots at the smallest and the largest sample, "
        "and the density of the samples behind.",
        [row.label for row in rows],
        LATENCY,
        [value for row in rows for value in _held(row).marks],
        notes=[figures.duration(_held(row).marks[3], row.result.latency_ms) for row in rows],
        row=30,
    )
    drawing, x = frame.drawing, frame.x
    for row, middle in zip(rows, frame.middles, strict=True):
        slot = looks[row.result.title].colour
        low, p5, p25, p50, p75, p95, p99, high = _held(row).marks
        density = _held(row).density
        if density:
            upper = [(x(ms), middle - 13 * share) for ms, share in density]
            lower = [(x(ms), middle + 13 * share) for ms, share in reversed(density)]
            drawing.path([*upper, *lower], f"density s{slot}", closed=True)
        drawing.line(x(p5), middle, x(p95), middle, f"bar s{slot}")
        tip = f"{row.label}: P25 {milliseconds(p25)}, P50 {milliseconds(p50)}, P75 {milliseconds(p75)} ms"
        drawing.rect(x(p25), middle - 6, max(x(p75) - x(p25), 1.5), 12, f"box s{slot}", tip)
        drawing.line(x(p50), middle - 9, x(p50), middle + 9, "median")
        for name, value in (("min", low), ("P99", p99), ("max", high)):
            drawing.path([(x(value), middle - 4), (x(value), middle + 4)], f"bar s{slot}")
            drawing.rect(x(value) - 3, middle - 6, 6, 12, "touch", f"{row.label}: {name} {milliseconds(value)} ms")
    note = (
        "Box: P25 to P75 with the median; line: P5 to P95; short strokes: smallest sample, P99, largest sample; "
        "shape behind: density. The figure on the right is the median."
    )
    return Chart(title, drawing.markup(), _marks_table(rows), note, view.key)


def ratios(view: View, looks: Mapping[str, Look]) -> Chart | None:
    """Draw how many times the fastest one's latency each target takes, with the band that means nothing."""
    rows = [(row.label, row.result.ratio) for row in view.timed if row.result.ratio is not None]
    shown = [looks[row.result.title] for row in view.timed if row.result.ratio is not None]
    if len(rows) < 2:
        return None
    floor = view.panel.noise_floor
    band = (math.exp(-floor), math.exp(floor)) if floor is not None else (1.0, 1.0)
    title = "Ratio to the fastest"
    frame = row_plot(
        f"{title}: {view.label}",
        "Each target's latency over that of the fastest, with its interval; one that holds 1 shows no difference.",
        [label for label, _ in rows],
        Axis("times the latency of the fastest (logarithmic)", log=True),
        [*(end for _, ratio in rows for end in (ratio.low, ratio.high)), *band],
        notes=[f"× {figures.ratio(ratio).partition(' ')[0]}" for _, ratio in rows],
    )
    drawing, x = frame.drawing, frame.x
    if floor is not None:
        drawing.rect(x(band[0]), frame.top, x(band[1]) - x(band[0]), frame.bottom - frame.top, "band", "noise floor")
    drawing.line(x(1.0), frame.top, x(1.0), frame.bottom, "reference")
    for (label, ratio), look, middle in zip(rows, shown, frame.middles, strict=True):
        drawing.line(x(ratio.low), middle, x(ratio.high), middle, f"bar s{look.colour}")
        for end in (ratio.low, ratio.high):
            drawing.line(x(end), middle - 4, x(end), middle + 4, f"bar s{look.colour}")
        drawing.marker(x(ratio.value), middle, look, f"{label}: {figures.ratio(ratio)}")
    data = Table(
        title,
        ("backend", "ratio", "low", "high"),
        tuple((label, *(f"{end:.3f}" for end in (ratio.value, ratio.low, ratio.high))) for label, ratio in rows),
        (1, 2, 3),
    )
    shaded = (
        f"Shaded: the noise floor, ±{math.expm1(floor) * 100:.1f} %."
        if floor is not None
        else "No noise floor is known."
    )
    return Chart(title, drawing.markup(), data, f"Paired by round, with intervals. {shaded}", view.key)
