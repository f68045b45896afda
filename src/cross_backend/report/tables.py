"""Tables: what a report says about results, as plain texts that terminal, Markdown and HTML share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cross_backend.measurement import Measurement
from cross_backend.names.task_metrics import SMALLER_IS_BETTER
from cross_backend.records import Comparison, Panel, Result, Timing
from cross_backend.registry import Role, role_of
from cross_backend.report import figures

NONE = "–"
"""Where there is nothing to show."""
RANKING = (
    "",
    "Backend",
    "ratio",
    "median",
    "95 % interval",
    "average",
    "runs",
    "max error",
    "SQNR dB",
    "size",
    "coverage",
    "load",
)
"""Columns of a ranking; then the first values of the output for small models, and the task metrics."""
OUTPUT = "output"
AGREED_TOP, AGREED_SQNR = "top-1 agreement", "SQNR to fp32"
"""Of a target of lower precision with one of float32, on many inputs; the second of its worst output."""
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

    def only(self, kept: Sequence[int]) -> Table:
        """Return the table with these of its columns."""
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows)
        numeric = tuple(place for place, i in enumerate(kept) if i in self.numeric)
        return Table(self.title, tuple(self.headers[i] for i in kept), rows, numeric)

    @property
    def filled(self) -> Table:
        """The table without columns all of whose cells are empty."""
        columns = range(len(self.headers))
        return self.only([i for i in columns if any(row[i] not in {"", NONE} for row in self.rows)])


def milliseconds(value: float) -> str:
    """Return a duration with at least three significant digits."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.{max(3 if value >= 1 else 4, 2 - math.floor(math.log10(value)) if value > 0 else 0)}f}"


def size(size_bytes: int | None) -> str:
    """Return a size in the unit that people use."""
    if size_bytes is None:
        return NONE
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= scale:
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes} B"


def seconds(value: float | None) -> str:
    """Return a duration that is known in seconds."""
    return NONE if value is None else figures.duration(value * 1e3)


def quantity(value: float | None, unit: str) -> str:
    """Return a value of one of a measurement's units (``ns``, ``B``, ``J``, ``W``, ``1/s``) as people write it."""
    if value is None or not math.isfinite(value):
        return NONE
    if unit == "ns":
        return figures.duration(value / 1e6)
    if unit == "B":
        return size(round(value))
    if unit in {"J", "W"}:
        for prefix, scale in (("", 1.0), ("m", 1e-3), ("µ", 1e-6)):
            if abs(value) >= scale or prefix == "µ":
                return f"{value / scale:.3g} {prefix}{unit}"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{text} /s" if unit == "1/s" else f"{text} {unit}"


def percent(share: float | None) -> str:
    """Return a share; never 100 % unless it is all."""
    if share is None:
        return NONE
    return "100 %" if share == 1 else f"{min(share * 100, 99.9):.1f} %"


def error(comparison: Comparison | None) -> str:
    """Return the largest deviation of an element: its error as a share of its magnitude and scale."""
    if comparison is None:
        return NONE
    return f"{comparison.max_rel:.1e}" if comparison.max_rel else "0"


def decibels(comparison: Comparison | None) -> str:
    """Return the signal to noise ratio; equal outputs have none."""
    if comparison is None:
        return NONE
    return "equal" if comparison.sqnr_db == math.inf else f"{comparison.sqnr_db:.0f}"


def iterations(measurement: Measurement) -> str:
    """Return the duration of each iteration in order; of the first ones where there are many."""
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
    """Return a row per kind of operator; cells follow :data:`PROFILE_HEADERS`."""
    total_ms = sum(row.ms for row in rows)
    return [
        (row.name, row.kind, str(row.calls), milliseconds(row.ms), percent(row.ms / total_ms if total_ms else None))
        for row in rows
    ]


def cells(result: Result) -> dict[str, str]:
    """Return what rankings say of a result, by the headers of their columns."""
    ms = result.latency_ms
    return {
        "ratio": figures.ratio(result.ratio),
        "median": figures.duration(ms.value, ms) if ms else NONE,
        "95 % interval": figures.interval(ms) if ms else NONE,
        "average": figures.duration(result.mean_ms, ms) if result.mean_ms is not None else NONE,
        "runs": f"{result.latency.count:,}" if result.latency else NONE,
        "max error": error(result.comparison),
        "SQNR dB": decibels(result.comparison),
        "size": size(result.size_bytes),
        "coverage": percent(result.placement.coverage if result.placement else None),
        "load": seconds(result.load_s),
    }


def costs(results: Iterable[Result]) -> list[str]:
    """Return the headers of what lower precision costs: task metrics, or the agreement with float32."""
    return sorted({name for result in results for name in (*result.task, *_agreed(result))})


def cost(result: Result, name: str) -> str:
    """Return the cell below such a header."""
    return _agreed(result).get(name) or score(name, result.task.get(name))


def score(metric: str, value: float | None) -> str:
    """Return a task's metric: a share in percent, anything else as it is."""
    is_share = metric not in SMALLER_IS_BETTER and value is not None and 0 <= value <= 1
    return percent(value) if value is None or is_share else f"{value:.4g}"


def _agreed(result: Result) -> dict[str, str]:
    found = result.agreement
    if found is None:
        return {}
    told = {AGREED_SQNR: sqnr(min(found.sqnr_db))}
    if found.top1 is not None:
        told[AGREED_TOP] = percent(found.top1)
    return told


def sqnr(db: float) -> str:
    """Return a signal to quantisation noise ratio."""
    return f"{db:.0f} dB" if math.isfinite(db) else "equal" if db > 0 else "none"


def ranking(panel: Panel) -> Table:
    """Return a row per ranked result, the best first; the first cell is the rank."""
    ranked = panel.ranked
    metrics = costs(ranked)
    outputs = (OUTPUT,) if any(result.sample_output for result in ranked) else ()
    rows = []
    for result in ranked:
        told = cells(result) | {OUTPUT: ", ".join(f"{v:.5g}" for v in result.sample_output)}
        tasks = (cost(result, name) for name in metrics)
        rows.append((str(result.rank), result.title, *(told[header] for header in (*RANKING[2:], *outputs)), *tasks))
    headers = (*RANKING, *outputs, *metrics)
    return Table("Ranking", headers, tuple(rows), tuple(range(2, len(headers))))


def ties(panel: Panel) -> list[tuple[Result, ...]]:
    """Return the groups of results that share a rank."""
    groups: dict[int, list[Result]] = {}
    for result in panel.ranked:
        groups.setdefault(result.rank or 0, []).append(result)
    return [tuple(group) for group in groups.values() if len(group) > 1]


def speedup(panel: Panel) -> tuple[str, Result] | None:
    """Return how many times faster the fastest is, and than which; None where they tie or none is worth the ratio.

    That is the baseline, the model as its framework runs it. Without one it is the slowest, where people ship each.
    """
    ranked = panel.ranked
    baseline = next((result for result in ranked if role_of(result.target) is Role.BASELINE), None)
    if baseline is None and all(role_of(result.target) is Role.PRODUCT for result in ranked):
        baseline = ranked[-1] if ranked else None
    if baseline is None or baseline.rank == 1 or baseline.ratio is None:
        return None
    return figures.ratio(baseline.ratio).partition(" ")[0], baseline
