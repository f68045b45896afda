"""Load charts: what happens with larger batches, more streams and a higher offered rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cross_backend.measure.percentiles import percentiles
from cross_backend.measure.quantiles import median_interval
from cross_backend.measurement import Measurement
from cross_backend.report.charts.latency import groups
from cross_backend.report.charts.plots import Axis, Chart, Point, Series, line_plot
from cross_backend.report.looks import Look
from cross_backend.report.tables import Table, milliseconds, quantity
from cross_backend.report.views import Row, View, threads, timed

_OPEN_LOOP = (50.0, 99.0)
"""Percentiles that are drawn against the offered rate."""


def batches(views: Sequence[View], looks: Mapping[str, Look]) -> list[Chart]:
    """Draw latency and inferences a second against the batch, where a workload was measured with several."""
    found: dict[str, list[View]] = {}
    for view in views:
        found.setdefault(f"{view.panel.workload}, {threads(view.panel)}", []).append(view)
    charts = []
    for label, group in found.items():
        if len({view.panel.batch for view in group}) < 2:
            continue
        rows: dict[str, list[tuple[int, Row]]] = {}
        for view in sorted(group, key=lambda view: view.panel.batch):
            for row in view.timed:
                rows.setdefault(row.result.title, []).append((view.panel.batch, row))
        ticks = tuple(float(batch) for batch in sorted({view.panel.batch for view in group}))
        x = Axis("batch (logarithmic)", log=True, ticks=ticks)
        firsts = [held[0][1] for held in rows.values()]
        for part, chosen in groups(firsts, looks):
            lines = [(look, _name(rows[row.result.title]), rows[row.result.title]) for look, row in chosen]
            charts += [_batch_chart(label, part, lines, x, rate) for rate in (False, True)]
    return charts


def _name(held: Sequence[tuple[int, Row]]) -> str:
    """Return a line's name: its target's, marked where it has no rank at some batch."""
    return next((row.label for _, row in held if row.result.rank is None), held[0][1].label)


def _batch_chart(
    label: str, part: str, lines: Sequence[tuple[Look, str, list[tuple[int, Row]]]], x: Axis, rate: bool
) -> Chart:
    series = []
    for look, name, held in lines:
        series.append(Series(name, look, tuple(_batch_point(name, batch, row, rate) for batch, row in held)))
    what = "Inferences a second" if rate else "Latency"
    title = f"{what} against batch: {label}{part}"
    y = Axis("inferences a second (logarithmic)" if rate else "median latency, ms (logarithmic)", log=True)
    told = "A line that rises with the slope of the batch would be perfect scaling." if rate else "Lower is faster."
    headers = ("backend", "batch", "inferences a second" if rate else "ms", "low", "high")
    cells = tuple(
        (line.label, f"{point.x:g}", *(_figure(value, rate) for value in (point.y, point.low, point.high)))
        for line in series
        for point in line.points
    )
    svg = line_plot(title, told, series, x, y)
    return Chart(title, svg, Table(title, headers, cells, (1, 2, 3, 4)), f"With 95 % intervals. {told}")


def _batch_point(name: str, batch: int, row: Row, rate: bool) -> Point:
    latency = row.result.latency_ms
    assert latency is not None
    value, low, high = latency.value, latency.low, latency.high
    if rate:
        value, low, high = (batch * 1000 / max(ms, 1e-6) for ms in (value, high, low))
    return Point(
        float(batch), value, low, high, f"{name}, batch {batch}: {_figure(value, rate)}{'/s' if rate else ' ms'}"
    )


def _figure(value: float | None, rate: bool) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if rate else milliseconds(value)


def _numbered(row: Row, prefix: str) -> list[tuple[float, Measurement]]:
    """Return an instrument's measurements by the number at the end of their names, ascending."""
    found = []
    for measurement in row.result.measurements:
        number = measurement.metric.removeprefix(prefix)
        if measurement.metric.startswith(prefix) and number.replace(".", "", 1).isdecimal() and measurement.count:
            found.append((float(number), measurement))
    return sorted(found, key=lambda pair: pair[0])


def streams(view: View, looks: Mapping[str, Look]) -> list[Chart]:
    """Draw the closed-loop rate against the number of concurrent streams."""
    rows = [row for row in view.rows if timed(row.result) and _numbered(row, "throughput.streams_")]
    charts = []
    for part, chosen in groups(rows, looks):
        series, cells = [], []
        for look, row in chosen:
            points = []
            for count, measurement in _numbered(row, "throughput.streams_"):
                rate, (low, high) = measurement.median, median_interval(measurement.values)
                points.append(
                    Point(count, rate, min(low, rate), max(high, rate), f"{row.label}, {count:g}: {rate:.4g}/s")
                )
                cells.append((row.label, f"{count:g}", *(quantity(v, "1/s") for v in (rate, low, high))))
            series.append(Series(row.label, look, tuple(points)))
        told = "Each stream begins its next call as soon as its last one ended; median and its 95 % interval."
        x, y = Axis("concurrent streams", log=True), Axis("inferences a second", zero=True)
        headers = ("backend", "streams", "inferences a second", "low", "high")
        data = Table(f"Throughput by streams{part}", headers, tuple(cells), (1, 2, 3, 4))
        charts.append(_against(view, told, series, x, y, data))
    return charts


def open_loops(view: View, looks: Mapping[str, Look]) -> list[Chart]:
    """Draw the latency from each call's intended start against the offered rate."""
    rows = [row for row in view.rows if timed(row.result) and _numbered(row, "open_loop.")]
    charts = []
    for percent in _OPEN_LOOP:
        for part, chosen in groups(rows, looks):
            series: list[Series] = []
            cells: list[tuple[str, ...]] = []
            for look, row in chosen:
                points = []
                for rate, measurement in _numbered(row, "open_loop."):
                    (found,) = percentiles(measurement, (percent,))
                    if found.value is None or found.low is None or found.high is None:
                        cells.append((row.label, f"{rate:g} %", f"needs n ≥ {found.needs or 0:,}", "–", "–"))
                        continue
                    value, low, high = found.value / 1e6, found.low / 1e6, found.high / 1e6
                    cells.append((row.label, f"{rate:g} %", *map(milliseconds, (value, low, high))))
                    tip = f"{row.label} at {rate:g} %: P{percent:g} {milliseconds(value)} ms"
                    points.append(Point(rate, value, low, high, tip))
                if points:
                    series.append(Series(row.label, look, tuple(points)))
            if not series:
                continue
            told = "From the moment a call was meant to start, so that waiting counts (no coordinated omission)."
            x = Axis("offered rate, % of the target's capacity")
            y = Axis(f"P{percent:g} from intended start, ms (logarithmic)", log=True)
            headers = ("backend", "offered rate", "ms", "low", "high")
            data = Table(f"P{percent:g} latency against offered rate{part}", headers, tuple(cells), (1, 2, 3, 4))
            charts.append(_against(view, told, series, x, y, data))
    return charts


def _against(view: View, told: str, series: Sequence[Series], x: Axis, y: Axis, data: Table) -> Chart:
    """Draw a line per target, with a tick below each of their points."""
    x = replace(x, ticks=tuple(sorted({point.x for line in series for point in line.points})))
    return Chart(data.title, line_plot(f"{data.title}: {view.label}", told, series, x, y), data, told, view.key)
