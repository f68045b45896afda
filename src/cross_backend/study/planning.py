"""Planning: what a study will do here and how long it may take, from the cache and the table of models."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.cache import Cache
from cross_backend.machine import Machine
from cross_backend.program.capture import Captured
from cross_backend.program.captures import find_capture
from cross_backend.study.cells import Cell, cells
from cross_backend.study.estimate import Estimate, estimate
from cross_backend.study.spec import PanelSpec, Study
from cross_backend.workloads import WORKLOADS, find_workload


def plan(study: Study, cache: Cache) -> tuple[Sequence[Cell], Estimate]:
    """Return the cells of a study and the estimated durations of its panels; imports no torch."""

    def captured(panel: PanelSpec) -> Captured | None:
        return find_capture(find_workload(panel.model, panel.weights, panel.batch), cache)

    def flops(panel: PanelSpec) -> float | None:
        row = WORKLOADS.get(panel.model)
        if row is not None and row.flops is not None:
            return row.flops * panel.batch
        found = captured(panel)
        return found.flops if found else None

    planned = cells(study, captured, cache, Machine.here())
    return planned, estimate(study, planned, flops)
