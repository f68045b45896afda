"""Changing: the chart of two studies, each cell's ratio with its interval, the margin around 1."""

from __future__ import annotations

from cross_backend.report.charts.plots import Axis, Chart, row_plot
from cross_backend.report.looks import kind
from cross_backend.study.diff import CellVerdict, Diff

TITLE = "Latency after over latency before"
KINDS = (CellVerdict.SAME, CellVerdict.SLOWER, CellVerdict.FASTER, CellVerdict.CANNOT_TELL)
"""Verdicts of cells that were measured in both studies; slower is red and faster is green."""

ROOM = 4.0
"""How many times beyond the outermost ratio an interval is drawn: those of two launches may be as wide as one likes."""


def change_chart(found: Diff) -> Chart | None:
    """Draw the cells that both studies measured, the largest ratio first; None where there are none."""
    cells = [(row, row.ratio, KINDS.index(row.verdict)) for row in found.rows if row.ratio and row.verdict in KINDS]
    if not cells:
        return None
    cells.sort(key=lambda cell: -cell[1].value)
    several = len({(row.batch, row.threads) for row, _, _ in cells}) > 1
    labels = [
        f"{row.workload}, {row.target}" + (f", batch {row.batch}, {row.threads} threads" if several else "")
        for row, _, _ in cells
    ]
    band = (1 / (1 + found.margin), 1 + found.margin)
    values = [1.0, *(ratio.value for _, ratio, _ in cells)]
    least, most = min(values) / ROOM, max(values) * ROOM
    bars = [(max(ratio.low, least), min(ratio.high, most)) for _, ratio, _ in cells]
    frame = row_plot(
        TITLE,
        "Each cell's ratio with its interval; above 1 it became slower.",
        labels,
        Axis("ratio (logarithmic)", log=True),
        [*values, *(end for bar in bars for end in bar), *band],
        legend=[str(verdict) for verdict in KINDS],
        notes=[f"× {ratio.value:.2f}" for _, ratio, _ in cells],
    )
    drawing, x = frame.drawing, frame.x
    drawing.rect(x(band[0]), frame.top, x(band[1]) - x(band[0]), frame.bottom - frame.top, "band", "margin")
    drawing.line(x(1.0), frame.top, x(1.0), frame.bottom, "reference")
    for label, (row, ratio, place), (low, high), middle in zip(labels, cells, bars, frame.middles, strict=True):
        look = kind(place)
        drawing.line(x(low), middle, x(high), middle, f"bar s{look.colour}")
        drawing.marker(x(ratio.value), middle, look, f"{label}: {row.verdict}")
    note = (
        f"Bars: each cell's 95 % interval, cut beyond {ROOM:g} times the outermost ratios. The verdicts hold for all "
        f"cells together. Shaded: the margin, {found.margin * 100:g} %."
    )
    return Chart(TITLE, drawing.markup(), found.table(), note)
