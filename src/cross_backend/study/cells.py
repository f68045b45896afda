"""Cells: what a study will do on this machine, one row per panel and target; nothing is run, no vendor imported."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cross_backend.backend import Backend, Missing
from cross_backend.cache import Cache
from cross_backend.comparison.benches import too_few_processors
from cross_backend.errors import CrossBackendError
from cross_backend.exporting.export import outcome_of
from cross_backend.lowering.lower import check_lowers, find
from cross_backend.machine import Machine
from cross_backend.program.captured import Captured
from cross_backend.records import Outcome
from cross_backend.registry import missing_here, resolve
from cross_backend.report.tables import Table
from cross_backend.study.spec import PanelSpec, StudySpec


@dataclass(frozen=True)
class Cell:
    """One target in one panel, before anything is done."""

    panel: PanelSpec
    target: str
    title: str
    """How tables call it."""
    outcome: Outcome
    """OK where nothing is known that stops it."""
    reason: str | None = None
    """What stops it, and what mends that."""
    captured: bool = False
    """Whether the model's program is in the cache."""
    cached: bool = False
    """Whether the artifact is in the cache; else it will be lowered."""

    @property
    def runs(self) -> bool:
        """Whether it will be measured."""
        return self.outcome is Outcome.OK

    @property
    def doing(self) -> str:
        """Return what will be done."""
        if not self.runs:
            return str(self.outcome)
        if self.cached:
            return "measure"
        return "lower, measure" if self.captured else "capture, lower, measure"

    def to_json(self) -> dict[str, Any]:
        """Return the row of the JSON document."""
        return {
            "workload": self.panel.workload.name,
            "batch": self.panel.batch,
            "threads": self.panel.threads,
            "target": self.target,
            "outcome": None if self.runs else str(self.outcome),
            "cached": self.cached,
            "reason": self.reason,
        }


def cells(
    study: StudySpec, captured: Callable[[PanelSpec], Captured | None], cache: Cache, machine: Machine
) -> tuple[Cell, ...]:
    """Return every cell in the order in which a study goes; imports no vendor.

    ``captured`` returns a panel's program where the cache holds it.
    """
    ask = functools.cache(missing_here)  # a backend may start a process to find out: once is enough
    return tuple(
        _cell(panel, text, program, cache, machine, ask)
        for panel in study.panels()
        for program in [captured(panel)]
        for text in panel.targets
    )


def _cell(
    panel: PanelSpec,
    text: str,
    program: Captured | None,
    cache: Cache,
    machine: Machine,
    ask: Callable[[Backend], Missing | None],
) -> Cell:
    try:
        resolved = resolve(text)
    except CrossBackendError as error:
        return Cell(panel, text, text, outcome_of(error, Outcome.UNSUPPORTED), str(error))
    missing, cached = ask(resolved.backend), program is not None and find(program, resolved, cache) is not None
    target, title = str(resolved.target), resolved.backend.title
    cell = Cell(panel, target, title, Outcome.OK, captured=program is not None, cached=cached)
    reason = missing and (missing.run or (None if cached else missing.lower))
    why = f"{resolved.backend.name} {reason}" if reason else too_few_processors(resolved, panel.threads, machine)
    if why is not None:
        return replace(cell, outcome=Outcome.UNAVAILABLE, reason=why)
    if program is not None and not cached:
        try:
            check_lowers(program, resolved)
        except CrossBackendError as error:
            return replace(cell, outcome=outcome_of(error, Outcome.UNSUPPORTED), reason=str(error))
    return cell


def table(planned: Sequence[Cell]) -> Table:
    """Return a row per cell for ``--dry-run``."""
    return Table(
        "cells",
        ("workload", "batch", "threads", "target", "what is done"),
        tuple(
            (
                cell.panel.workload.name,
                str(cell.panel.batch),
                str(cell.panel.threads),
                cell.target,
                cell.doing,
            )
            for cell in planned
        ),
        (1, 2),
    )
