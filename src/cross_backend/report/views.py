"""Views: panels in the order that readers want, with what is computed of samples once for all media."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cross_backend.measurement import Measurement
from cross_backend.records import Outcome, Panel, Result, StudyResults
from cross_backend.report.distributions import Distribution, distribution
from cross_backend.report.looks import Look, looks


@dataclass(frozen=True)
class Row:
    """One result as a report shows it."""

    result: Result
    distribution: Distribution | None = None
    """Of its latency; None where there is none that may be shown."""

    @property
    def label(self) -> str:
        """Its name in charts; a row without a rank says so."""
        return self.result.title if self.result.rank is not None else f"{self.result.title} (not ranked)"

    @property
    def has_figures(self) -> bool:
        """Whether it came so far that a table can say more of it than why it stopped."""
        return self.result.outcome is Outcome.OK or self.result.comparison is not None

    def measurement(self, metric: str) -> Measurement | None:
        """Return what an instrument gave; None where it gave nothing, or where the figure would prove nothing."""
        if not proved(self.result) or functional(self.result):
            return None
        return next((m for m in self.result.measurements if m.metric == metric and m.count), None)


@dataclass(frozen=True)
class View:
    """One panel as a report shows it."""

    key: str
    """Short, unique in the report, safe in identifiers."""
    panel: Panel
    rows: tuple[Row, ...]
    """Ranked ones first, fastest first; then right ones without a rank; then what failed, in the study's order."""

    @property
    def label(self) -> str:
        """What was measured."""
        place = f", {self.panel.place}" if self.panel.place != "local" else ""
        return f"{self.panel.workload}, batch {self.panel.batch}, {threads(self.panel)}{place}"

    @property
    def timed(self) -> list[Row]:
        """The rows whose latency may be shown."""
        return [row for row in self.rows if row.distribution is not None]

    @property
    def first(self) -> list[Row]:
        """The fastest, more than one where they tie."""
        return [row for row in self.rows if row.result.rank == 1 and row.result.latency_ms is not None]

    @property
    def stopped(self) -> list[Row]:
        """The rows without a rank."""
        return [row for row in self.rows if row.result.rank is None]


def threads(panel: Panel) -> str:
    """Return how many threads each target had."""
    count = panel.settings.get("threads")
    return "threads not recorded" if count is None else f"{count} thread{'s' if count != 1 else ''}"


def proved(result: Result) -> bool:
    """Whether what was measured may be shown: the outputs were checked, and are right."""
    return result.outcome is Outcome.OK and result.comparison is not None and result.comparison.verdict


def functional(result: Result) -> bool:
    """Whether right or wrong is all that the run can tell."""
    return result.execution is not None and result.execution.functional_only is not None


def timed(result: Result) -> bool:
    """Whether its latency may be shown: it is right, and a duration says something about the device."""
    return proved(result) and not functional(result) and result.latency is not None and result.latency_ms is not None


def views(results: StudyResults) -> tuple[View, ...]:
    """Return all panels, ordered as in the study."""
    found = []
    for index, panel in enumerate(results.panels):
        rows = (Row(r, distribution(r.latency) if timed(r) and r.latency else None) for r in _ordered(panel))
        found.append(View(f"p{index}", panel, tuple(rows)))
    return tuple(found)


def _ordered(panel: Panel) -> list[Result]:
    ranks = {id(result): place for place, result in enumerate(panel.ranked)}

    def place(result: Result) -> tuple[int, float, float]:
        median = result.latency_ms.value if timed(result) and result.latency_ms else math.inf
        return (0 if timed(result) else 1 if proved(result) else 2), ranks.get(id(result), math.inf), median

    return sorted(panel.results, key=place)


def looks_of(all_views: Sequence[View]) -> dict[str, Look]:
    """Return the looks of all targets of a study, by title."""
    return looks((result.title, result.target) for view in all_views for result in view.panel.results)
