"""Tables: what a report says about results, as plain texts that terminal, Markdown and HTML share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cross_backend.records import Comparison, Panel, Result, Timing
from cross_backend.samples import Measurement

HEADERS = (
    "",
    "Backend",
    "median ms",
    "95 % interval",
    "avg ms",
    "runs",
    "max error",
    "SQNR dB",
    "coverage",
    "size",
    "load s",
)
PROFILE_HEADERS = ("Operator", "kind", "calls", "ms", "share")
PROFILE_ROWS = 30
"""Most rows of a profile that a terminal shows."""
MOST_ITERATIONS = 20
"""Up to so many are all shown."""
SHOWN_ITERATIONS = 10
"""Of more than those, so many."""


@dataclass(frozen=True)
class Table:
    """Plain texts in rows and columns, for any medium."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    """Columns that hold numbers."""


def milliseconds(value: float) -> str:
    """Give a duration with at least three significant digits."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.{max(3 if value >= 1 else 4, 2 - math.floor(math.log10(value)) if value > 0 else 0)}f}"


def size(size_bytes: int | None) -> str:
    """Give a size in the unit that people use."""
    if size_bytes is None:
        return "–"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def quantity(value: float | None, unit: str) -> str:
    """Give a value of one of a measurement's units (``ns``, ``B``, ``J``, ``W``, ``1/s``) as people write it."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "ns":
        return f"{milliseconds(value / 1e6)} ms"
    if unit == "B":
        return size(round(value))
    if unit in {"J", "W"}:
        for prefix, scale in (("", 1.0), ("m", 1e-3), ("µ", 1e-6)):
            if abs(value) >= scale or prefix == "µ":
                return f"{value / scale:.3g} {prefix}{unit}"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} /s" if unit == "1/s" else f"{text} {unit}"


def percent(share: float | None) -> str:
    """Give a share; never 100 % unless it is all."""
    if share is None:
        return "–"
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.1f} %"


def error(comparison: Comparison | None) -> str:
    """Give the largest error as a share of the largest output."""
    return "–" if comparison is None else f"{comparison.max_rel:.1e}"


def decibels(comparison: Comparison | None) -> str:
    """Give the signal to noise ratio; equal outputs have none."""
    if comparison is None:
        return "–"
    return "equal" if comparison.sqnr_db == math.inf else f"{comparison.sqnr_db:.0f}"


def iterations(measurement: Measurement) -> str:
    """Give the duration of each iteration in order; of the first ones where there are many."""
    values = [value / 1e6 for value in measurement.values]
    count = len(values) if len(values) <= MOST_ITERATIONS else SHOWN_ITERATIONS
    shown = ", ".join(milliseconds(value) for value in values[:count])
    if count == len(values):
        return f"iterations: {shown} ms"
    return (
        f"iterations: {shown}, … ms (the first {count} of {len(values)}; "
        f"min {milliseconds(min(values))}, max {milliseconds(max(values))}; --json has all)"
    )


def profile(rows: Sequence[Timing]) -> list[tuple[str, ...]]:
    """Give a row per kind of operator; cells follow :data:`PROFILE_HEADERS`."""
    total_ms = sum(row.ms for row in rows)
    return [
        (row.name, row.kind, str(row.calls), milliseconds(row.ms), percent(row.ms / total_ms if total_ms else None))
        for row in rows
    ]


def ranking(panel: Panel) -> list[tuple[str, ...]]:
    """Give a row per ranked result, fastest first; cells follow :data:`HEADERS`, the first is the rank."""
    rows: list[tuple[str, ...]] = []
    for result in panel.ranked:
        latency, measurement = result.latency_ms, result.latency
        assert latency is not None and measurement is not None and result.mean_ms is not None
        rows.append(
            (
                str(result.rank),
                result.title,
                milliseconds(latency.value),
                f"{milliseconds(latency.low)} – {milliseconds(latency.high)}",
                milliseconds(result.mean_ms),
                f"{measurement.count}",
                error(result.comparison),
                decibels(result.comparison),
                percent(result.placement.coverage if result.placement else None),
                size(result.size_bytes),
                f"{result.load_s:.2f}" if result.load_s is not None else "–",
            )
        )
    return rows


def ties(panel: Panel) -> list[tuple[Result, ...]]:
    """Give the groups of results that share a rank."""
    groups: dict[int, list[Result]] = {}
    for result in panel.ranked:
        groups.setdefault(result.rank or 0, []).append(result)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def speedup(panel: Panel) -> tuple[Result, Result, float] | None:
    """Give the fastest, the slowest and how many times faster; None where they tie or stand alone."""
    ranked = panel.ranked
    if len(ranked) < 2 or ranked[0].rank == ranked[-1].rank:
        return None
    fastest, slowest = ranked[0].latency_ms, ranked[-1].latency_ms
    assert fastest is not None and slowest is not None
    return ranked[0], ranked[-1], slowest.value / fastest.value
