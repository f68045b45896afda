"""Frames: results as flat rows, one a target, and as tables of pandas and Polars."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from typing import Any

from cross_backend.errors import UnavailableError
from cross_backend.records import Panel, Result, finite
from cross_backend.report.views import functional, proved, timed

_UNITS = {
    "B": ("bytes", 1.0),
    "J": ("joules", 1.0),
    "W": ("watts", 1.0),
    "1/s": ("per_s", 1.0),
    "ns": ("ms", 1e-6),
}
"""Unit of a measurement → how a column calls it, and by what its values are multiplied."""
_NO_LETTER = re.compile(r"[^0-9A-Za-z]+")


def rows(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """Return one row a target; units are in the names, unknown values are None, and every row has every column."""
    found = [_row(panel, result) for panel in panels for result in panel.results]
    columns = dict.fromkeys(name for row in found for name in row)
    return [{name: row.get(name) for name in columns} for row in found]


def _row(panel: Panel, result: Result) -> dict[str, Any]:
    latency = result.latency_ms if timed(result) else None
    ratio, comparison = result.ratio, result.comparison
    row = {
        "workload": panel.workload,
        "batch": panel.batch,
        "threads": panel.settings.get("threads"),
        "place": panel.place,
        "target": result.target,
        "backend": result.title,
        "precision": result.precision,
        "outcome": str(result.outcome),
        "reason": result.reason,
        "rank": result.rank,
        "ratio": None if ratio is None else finite(ratio.value),
        "ratio_low": None if ratio is None else finite(ratio.low),
        "ratio_high": None if ratio is None else finite(ratio.high),
        "latency_median_ms": None if latency is None else latency.value,
        "latency_low_ms": None if latency is None else finite(latency.low),
        "latency_high_ms": None if latency is None else finite(latency.high),
        "latency_mean_ms": None if latency is None else result.mean_ms,
        "calls": result.latency.count if latency is not None and result.latency is not None else None,
        "max_rel_error": None if comparison is None else finite(comparison.max_rel),
        "sqnr_db": None if comparison is None else finite(comparison.sqnr_db),
        "coverage": result.placement.coverage if result.placement else None,
        "size_bytes": result.size_bytes,
        "load_s": result.load_s,
        "export_s": result.export_s,
        "agreement_top1": result.agreement.top1 if result.agreement else None,
    }
    row |= {_column(name): value for name, value in result.task.items()}
    if not proved(result) or functional(result):
        return row
    taken = [one for one in result.measurements if one.count]
    for one in taken:
        name, scale = _UNITS.get(one.unit, (one.unit, 1.0))
        row[_column(f"{one.metric} {name}")] = one.median * scale
    return row


def _column(text: str) -> str:
    return _NO_LETTER.sub("_", text).strip("_").lower()


def pandas(panels: Sequence[Panel]) -> Any:
    """Return a ``pandas.DataFrame`` with the columns of :func:`rows`.

    Raises:
        UnavailableError: pandas is not installed.
    """
    return _package("pandas").DataFrame(rows(panels))


def polars(panels: Sequence[Panel]) -> Any:
    """Return a ``polars.DataFrame`` with the columns of :func:`rows`.

    Raises:
        UnavailableError: Polars is not installed.
    """
    return _package("polars").DataFrame(rows(panels), infer_schema_length=None)


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnavailableError(f"{name} is not installed", f"pip install {name}, or use to_dict().") from error
