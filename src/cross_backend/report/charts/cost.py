"""Cost charts of one panel: cold start, memory, energy, and accuracy against latency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from cross_backend.instruments.cold_start import TABLE as COLD_START_TABLE
from cross_backend.instruments.memory import TABLE as MEMORY_TABLE
from cross_backend.names.task_metrics import SMALLER_IS_BETTER
from cross_backend.report.charts.latency import LATENCY
from cross_backend.report.charts.plots import WIDTH, Axis, Chart, axes, paper, row_plot
from cross_backend.report.charts.scales import scale
from cross_backend.report.charts.svg import Drawing
from cross_backend.report.looks import Look, kind
from cross_backend.report.tables import Table, decibels, milliseconds, quantity, score
from cross_backend.report.views import Row, View

COLD_START, MEMORY = COLD_START_TABLE.parts, MEMORY_TABLE.parts
NAMES = {**COLD_START, **MEMORY}


def _medians(view: View, prefix: str, parts: Sequence[str]) -> list[tuple[Row, dict[str, float]]]:
    """Return each target's medians by part, leaving out those without any."""
    found = []
    for row in view.rows:
        medians = {}
        for part in parts:
            measurement = row.measurement(f"{prefix}.{part}" if part else prefix)
            if measurement and math.isfinite(measurement.median):
                medians[part] = measurement.median
        if medians:
            found.append((row, medians))
    return found


def _data(title: str, rows: Sequence[tuple[Row, Mapping[str, float]]], parts: Sequence[str], unit: str) -> Table:
    cells = tuple((row.label, *(quantity(held.get(part), unit) for part in parts)) for row, held in rows)
    return Table(title, ("backend", *(NAMES.get(part, part) for part in parts)), cells, tuple(range(1, len(parts) + 1)))


def cold_start(view: View) -> Chart | None:
    """Draw what the time from nothing to the first result is made of, end to end."""
    rows = _medians(view, "cold_start", tuple(COLD_START))
    if not rows:
        return None
    rows.sort(key=lambda pair: sum(pair[1].values()))
    title = "From nothing to the first inference"
    totals = [sum(held.values()) / 1e9 for _, held in rows]
    frame = row_plot(
        f"{title}: {view.label}",
        "For each target one bar of four parts behind each other: process start, import, load or compile, first "
        "inference; medians over the launches, in seconds.",
        [row.label for row, _ in rows],
        Axis("seconds", zero=True),
        totals,
        legend=list(COLD_START.values()),
        notes=[f"{total:.3g} s" for total in totals],
        patterned=True,
    )
    for (row, held), middle in zip(rows, frame.middles, strict=True):
        done = 0.0
        for slot, part in enumerate(COLD_START):
            if part not in held:
                continue
            begin, end = frame.x(done / 1e9), frame.x((done + held[part]) / 1e9)
            tip = f"{row.label}: {NAMES[part]} {held[part] / 1e9:.3g} s"
            frame.drawing.rect(begin, middle - 8, end - begin, 16, f"segment h{slot}", tip)
            done += held[part]
    missing = any(len(held) < len(COLD_START) for _, held in rows)
    note = "Medians over the launches, fresh processes, shortest first."
    note += " A bar without all four parts is not the whole time: the table says which." if missing else ""
    return Chart(title, frame.drawing.markup(), _data(title, rows, tuple(COLD_START), "ns"), note, view.key)


def memory(view: View) -> Chart | None:
    """Draw peak, proportional, retained and device memory as one dot each."""
    rows = _medians(view, "memory", tuple(MEMORY))
    if not rows:
        return None
    title = "Memory of the isolated worker"
    values = [value / 1e6 for _, held in rows for value in held.values()]
    frame = row_plot(
        f"{title}: {view.label}",
        "For each target a circle at its peak resident memory, a square at its proportional share, a triangle at what "
        "it retains after closing, a diamond at device memory; megabytes.",
        [row.label for row, _ in rows],
        Axis("megabytes (10⁶ bytes)", zero=True),
        values,
        legend=list(MEMORY.values()),
    )
    for (row, held), middle in zip(rows, frame.middles, strict=True):
        places = {part: frame.x(value / 1e6) for part, value in held.items()}
        frame.drawing.line(min(places.values()), middle, max(places.values()), middle, "rail")
        for part, place in places.items():
            tip = f"{row.label}: {NAMES[part]} {quantity(held[part], 'B')}"
            frame.drawing.marker(place, middle, kind(tuple(MEMORY).index(part)), tip)
    return Chart(title, frame.drawing.markup(), _data(title, rows, tuple(MEMORY), "B"), "Lower is better.", view.key)


def energy(view: View, looks: Mapping[str, Look]) -> list[Chart]:
    """Draw energy an inference and power as bars, each where it was measured."""
    charts = []
    for prefix, part, title, label, unit, divisor in (
        ("energy", "per_inference", "Energy an inference", "millijoules an inference", "J", 1e-3),
        ("power", "", "Power", "watts", "W", 1.0),
    ):
        rows = _medians(view, prefix, (part,))
        if not rows:
            continue
        values = [held[part] / divisor for _, held in rows]
        frame = row_plot(
            f"{title}: {view.label}",
            f"A bar per target: {label}, median.",
            [row.label for row, _ in rows],
            Axis(label, zero=True),
            values,
            notes=[quantity(held[part], unit) for _, held in rows],
        )
        for (row, held), value, middle in zip(rows, values, frame.middles, strict=True):
            tip = f"{row.label}: {quantity(held[part], unit)}"
            colour = f"segment fill s{looks[row.result.title].colour}"
            frame.drawing.rect(frame.x(0), middle - 8, frame.x(value) - frame.x(0), 16, colour, tip)
        cells = tuple((row.label, quantity(held[part], unit)) for row, held in rows)
        charts.append(Chart(title, frame.drawing.markup(), Table(title, ("backend", label), cells, (1,)), "", view.key))
    return charts


def frontier(view: View, looks: Mapping[str, Look]) -> Chart | None:
    """Draw accuracy against latency, and the targets that none beats in both."""
    tasks = sorted({name for row in view.timed for name in row.result.task})
    rows = [row for row in view.timed if row.result.comparison and (not tasks or tasks[0] in row.result.task)]
    if not rows:
        return None
    task = tasks[0] if tasks else None
    name, is_falling = task or "SQNR, dB", task in SMALLER_IS_BETTER
    points = [(row, _latency(row), _accuracy(row, task)) for row in rows]
    known = [value for _, _, value in points if math.isfinite(value)]
    top = max(known, default=0.0) + (0.02 if tasks else 10.0)  # where outputs are equal, the ratio has no bound
    points = [(row, ms, min(value, top)) for row, ms, value in points]
    title = f"{task or 'SQNR'} against latency"
    width = paper()
    columns = 2 if width == WIDTH else 1
    legend = -(-len(points) // columns) * 18
    drawing = Drawing(
        f"{title}: {view.label}",
        "A point per target, with the interval of its median: left is faster, up is more accurate; the stairs join "
        "those that no other beats.",
        width,
        310 + legend,
    )
    ys = scale([value for _, _, value in points], 250, 14)
    ends = [end for row, _, _ in points for end in _interval(row)]
    xs = scale(ends, 64, width - 24, log=True, room=0.08)
    axes(drawing, xs, ys, LATENCY, Axis(name, percent=bool(tasks) and not is_falling, negated=is_falling))
    best = unbeaten([(row, value) for row, _, value in points])
    drawing.path([(xs(ms), ys(value)) for ms, value in _stairs(points, best)], "reference", step=True)
    taken: list[tuple[float, float]] = []
    for index, (row, ms, value) in enumerate(points):
        at = (xs(ms), ys(value))
        tip = f"{index + 1} {row.label}: {milliseconds(ms)} ms, {_told(row, task)}"
        low, high = _interval(row)
        drawing.line(xs(low), at[1], xs(high), at[1], f"bar s{looks[row.result.title].colour}")
        drawing.marker(*at, looks[row.result.title], tip)
        drawing.text(*_free(at, taken), str(index + 1), "tick")
        left, line = 12 + (width / columns - 10) * (index % columns), 310 + 18 * (index // columns)
        drawing.marker(left + 30, line - 4, looks[row.result.title])
        drawing.text(left + 20, line, str(index + 1), "tick", anchor="end")
        drawing.text(left + 42, line, row.label, room=width / columns - 70)
    cells = tuple(
        (str(i + 1), row.label, milliseconds(ms), _told(row, task), "yes" if i in best else "no")
        for i, (row, ms, _) in enumerate(points)
    )
    data = Table(title, ("no.", "backend", "median ms", name, "unbeaten"), cells, (0, 2, 3))
    note = (
        "Up and left is better; the stairs join what no other beats: none is as fast and more accurate, or faster and "
        "as accurate. Targets that share a rank are as fast as each other."
    )
    if not tasks and any(row.result.comparison and row.result.comparison.sqnr_db == math.inf for row in rows):
        note += " Outputs that equal the reference have no finite SQNR: they are put at the top."
    return Chart(title, drawing.markup(), data, note, view.key)


def _free(at: tuple[float, float], taken: list[tuple[float, float]]) -> tuple[float, float]:
    """Find a place near a point for its number where none is yet, and take it; the last choice where all are taken."""
    places = [(at[0] + x, at[1] + y) for x, y in ((7, -6), (7, 14), (-16, -6), (-16, 14), (16, 4), (-26, 4))]
    free = [(x, y) for x, y in places if all(abs(x - a) > 14 or abs(y - b) > 11 for a, b in taken)]
    taken.append((free or places)[0 if free else -1])
    return taken[-1]


def _latency(row: Row) -> float:
    assert row.result.latency_ms is not None
    return max(row.result.latency_ms.value, 1e-6)


def _accuracy(row: Row, task: str | None) -> float:
    """Return a value of which more is better."""
    if task is not None:
        return -row.result.task[task] if task in SMALLER_IS_BETTER else row.result.task[task]
    assert row.result.comparison is not None
    return row.result.comparison.sqnr_db


def _told(row: Row, task: str | None) -> str:
    return score(task, row.result.task[task]) if task is not None else decibels(row.result.comparison)


def _interval(row: Row) -> tuple[float, float]:
    """Return the ends of the median's interval, milliseconds."""
    assert row.result.latency_ms is not None
    return max(row.result.latency_ms.low, 1e-6), max(row.result.latency_ms.high, 1e-6)


def unbeaten(points: Sequence[tuple[Row, float]]) -> set[int]:
    """Return the indices of the rows, each with its accuracy, that no other beats: the Pareto set, with ties.

    One beats another that is as fast and less accurate, or slower and no more accurate.
    """
    return {
        index
        for index, (row, value) in enumerate(points)
        if not any(
            (other_value > value and not _slower(other, row)) or (other_value >= value and _slower(row, other))
            for other, other_value in points
        )
    }


def _slower(row: Row, other: Row) -> bool:
    """Whether a row is slower than another for sure: by rank, or by their intervals where one has no rank."""
    if row.result.rank is not None and other.result.rank is not None:
        return row.result.rank > other.result.rank
    return _interval(row)[0] > _interval(other)[1]


def _stairs(points: Sequence[tuple[Row, float, float]], best: set[int]) -> list[tuple[float, float]]:
    """Return the corners of the line that joins them, from left to right, each higher than the one before."""
    found: list[tuple[float, float]] = []
    for ms, value in sorted(((points[index][1], points[index][2]) for index in best), key=lambda at: (at[0], -at[1])):
        if not found or value > found[-1][1]:
            found.append((ms, value))
    return found
