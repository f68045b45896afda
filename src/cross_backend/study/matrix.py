"""Matrix: models × backends × precisions as a study of a fixed layout, and its cells as rows, a page and a document."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cross_backend.foreign_text import plain
from cross_backend.records import INTERRUPTED, TOO_FEW, Outcome, Panel, Result, StudyResults, peak_of
from cross_backend.registry import at_every_precision, rows
from cross_backend.report import figures, tables
from cross_backend.report.markdown import escaped
from cross_backend.report.outcomes import MEANINGS, sentence
from cross_backend.report.tables import NONE
from cross_backend.serialization import from_json
from cross_backend.study.spec import HERE, StudySettings, StudySpec, WorkloadSpec
from cross_backend.workloads.table import WORKLOADS

NAME = "matrix"
"""What its studies are called."""
SCHEMA = 1
TOGETHER = 8
"""Targets that are open at once: a large model has dozens."""
COLUMNS = (
    "backend",
    "precision",
    "outcome",
    "coverage",
    "max error",
    "SQNR dB",
    "size",
    "export",
    "median",
    "peak memory",
)
_FAMILY, _PACKAGE, _SMALLEST = "detection", "ultralytics", "n"


def default_models() -> tuple[str, ...]:
    """Return the built-in models; of detectors the smallest ones, where their package is installed."""
    with_detectors = importlib.util.find_spec(_PACKAGE) is not None
    return tuple(
        name
        for name, row in WORKLOADS.items()
        if row.family != _FAMILY or (with_detectors and name.endswith(_SMALLEST))
    )


def layout(
    models: Sequence[str],
    targets: Sequence[str] = (),
    settings: StudySettings | None = None,
    places: Sequence[str] = HERE,
) -> StudySpec:
    """Return the study: every model on every backend at every precision that it has.

    Args:
        models: built-in names or files.
        targets: backends; all where empty.
        settings: how to measure; one launch of two seconds where None.
        places: machines that measure.

    Raises:
        UsageError: a model or target that does not exist.
    """
    chosen = targets or [name for name, row in rows().items() if row.in_all]
    return StudySpec(
        NAME,
        tuple(WorkloadSpec.find(model) for model in dict.fromkeys(models)),
        tuple(one for text in chosen for one in at_every_precision(text)),
        settings=settings or quick_settings(),
        places=tuple(places),
    )


def quick_settings(seconds: float = 2.0, launches: int = 1, timeout_s: float = 600.0, jobs: int = 0) -> StudySettings:
    """Return how a matrix is measured: few launches, memory, and a model's task metric."""
    return StudySettings(
        seconds=seconds,
        launches=launches,
        max_launches=max(15, launches),
        timeout_s=timeout_s,
        instruments=("memory",),
        together=TOGETHER,
        jobs=jobs,
    )


@dataclass(frozen=True)
class MatrixCell:
    """One model on one backend at one precision, on one machine."""

    model: str
    target: str
    title: str
    precision: str | None
    place: str
    outcome: str
    reason: str | None = None
    """Why it is not OK, or what to know although it is."""
    coverage: float | None = None
    max_error: float | None = None
    sqnr_db: float | None = None
    """None where it is not known, or where outputs are equal."""
    size_bytes: int | None = None
    export_s: float | None = None
    median_ms: float | None = None
    memory_bytes: int | None = None
    """Peak of the process."""


@dataclass(frozen=True)
class Matrix:
    """All cells, and where and when they were measured."""

    cells: tuple[MatrixCell, ...]
    machines: Mapping[str, str]
    """Place → processor."""
    versions: Mapping[str, str]
    started: str
    finished: bool

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {"schema": SCHEMA, **asdict(self), "cells": [asdict(cell) for cell in self.cells]}

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Matrix:
        """Read what :meth:`to_json` gave.

        Raises:
            ValueError, TypeError: it is no such document.
        """
        if row.get("schema") != SCHEMA:
            raise ValueError(f"not a matrix of version {SCHEMA}")
        found: Matrix = from_json(cls, {key: value for key, value in row.items() if key != "schema"})
        return found

    @functools.cached_property
    def models(self) -> tuple[str, ...]:
        """The models in their order."""
        return tuple(dict.fromkeys(cell.model for cell in self.cells))

    @functools.cached_property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        """(Outcome, reason) of all cells, each once."""
        return tuple(dict.fromkeys(_why(cell) for cell in self.cells if _why(cell)[1]))

    def reason_of(self, cell: MatrixCell) -> int | None:
        """Return the number of a cell's reason, from 1; None where it has none."""
        return self.reasons.index(_why(cell)) + 1 if _why(cell)[1] else None

    def of(self, model: str) -> list[MatrixCell]:
        """Return the cells of a model, the fastest first, what failed last."""
        mine = [cell for cell in self.cells if cell.model == model]
        return sorted(
            mine, key=lambda cell: (cell.outcome != Outcome.OK, cell.median_ms is None, cell.median_ms or 0.0)
        )

    def summary(self) -> tables.Table:
        """Return a row a model: how its targets ended, and the fastest."""
        outcomes = [str(one) for one in Outcome if any(cell.outcome == one for cell in self.cells)]
        found = []
        for model in self.models:
            cells = self.of(model)
            counts = (str(sum(cell.outcome == one for cell in cells)) for one in outcomes)
            first = cells[0] if cells[0].median_ms is not None else None
            fastest = f"{first.title}, {_median(first)}" if first else NONE
            found.append((model, *counts, fastest))
        numeric = tuple(range(1, len(outcomes) + 1))
        return tables.Table("Models", ("model", *outcomes, "fastest"), tuple(found), numeric)

    def table(self, model: str) -> tables.Table:
        """Return a row a target of a model."""
        several = len(self.machines) > 1
        headers = (*(("machine",) if several else ()), *COLUMNS)
        found = tuple((*((cell.place,) if several else ()), *_texts(cell)) for cell in self.of(model))
        shift = int(several)
        return tables.Table(model, headers, found, tuple(range(3 + shift, len(headers))))


def _why(cell: MatrixCell) -> tuple[str, str]:
    return cell.outcome, cell.reason or ""


def matrix_of(results: StudyResults) -> Matrix:
    """Return the cells of a study's results."""
    cells = tuple(_cell(panel, result) for panel in results.panels for result in panel.results)
    machines = {panel.place: panel.machine.cpu for panel in results.panels}
    return Matrix(cells, machines, dict(results.versions), results.started, results.finished)


def _cell(panel: Panel, result: Result) -> MatrixCell:
    comparison = result.comparison
    finite = comparison is not None and comparison.max_rel < float("inf")
    return MatrixCell(
        panel.workload,
        result.target,
        result.title.partition(" precision=")[0],
        result.precision,
        panel.place,
        str(result.outcome),
        _reason(result),
        result.placement.coverage if result.placement else None,
        comparison.max_rel if comparison and finite else None,
        comparison.sqnr_db if comparison and abs(comparison.sqnr_db) < float("inf") else None,
        result.size_bytes,
        result.export_s,
        result.latency_ms.value if result.latency_ms and result.outcome is Outcome.OK else None,
        peak_of(result),
    )


def _reason(result: Result) -> str | None:
    """Return why a result is not OK, or what to know of it; that so few calls rank nothing is no such thing."""
    unranked = None if result.unranked in {TOO_FEW, INTERRUPTED} else result.unranked
    return plain(result.reason or unranked or "") or None


def _median(cell: MatrixCell) -> str:
    return NONE if cell.median_ms is None else figures.duration(cell.median_ms)


def _texts(cell: MatrixCell) -> tuple[str, ...]:
    """Return the texts of :data:`COLUMNS`."""
    return (
        cell.title,
        cell.precision or NONE,
        cell.outcome,
        tables.percent(cell.coverage),
        NONE if cell.max_error is None else f"{cell.max_error:.1e}",
        NONE if cell.sqnr_db is None else f"{cell.sqnr_db:.0f}",
        tables.size(cell.size_bytes),
        tables.seconds(cell.export_s),
        _median(cell),
        tables.size(cell.memory_bytes),
    )


def markdown(matrix: Matrix) -> str:
    """Return the page: a summary, a table a model, and the reasons that cells link to."""
    machines = [cpu if place == "local" else f"{place}: {cpu}" for place, cpu in matrix.machines.items()]
    lines = [
        "# Matrix",
        "",
        "Models × backends × precisions: what works, what it costs, and why the rest does not. `make matrix`",
        "measures it; `make docs` writes this page from `docs/matrix.json`. On *your* machine: `cross-backend matrix`.",
        "",
        escaped(f"{'; '.join(machines)}. Begun {matrix.started[:10]}, one thread, batch 1."),
        "",
        *([] if matrix.finished else ["**Not finished: this is what was measured until now.**", ""]),
        *_section(matrix.summary(), {}),
    ]
    for model in matrix.models:
        links = {at: number for at, cell in enumerate(matrix.of(model)) if (number := matrix.reason_of(cell))}
        lines += _section(matrix.table(model), links)
    lines += ["## Reasons", ""] if matrix.reasons else []
    for number, (outcome, why) in enumerate(matrix.reasons, 1):
        meaning = f" ({MEANINGS[outcome]})" if outcome in MEANINGS else ""
        lines += [f"### Reason {number}", "", f"{outcome}{meaning}: {escaped(sentence(why))}", ""]
    return "\n".join(lines).rstrip() + "\n"


def _section(table: tables.Table, links: Mapping[int, int]) -> list[str]:
    """Return a table in Markdown, whose outcomes link to their reasons."""
    at = table.headers.index("outcome") if "outcome" in table.headers else -1
    marks = ["---:" if index in table.numeric else "---" for index in range(len(table.headers))]
    lines = [f"## {escaped(table.title)}", "", f"| {' | '.join(table.headers)} |", f"| {' | '.join(marks)} |"]
    for row, cells in enumerate(table.rows):
        texts = [escaped(cell) for cell in cells]
        if row in links:
            texts[at] = f"[{texts[at]}](#reason-{links[row]})"
        lines.append(f"| {' | '.join(texts)} |")
    return [*lines, ""]
