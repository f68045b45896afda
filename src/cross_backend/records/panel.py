"""Panels: the targets of one workload that were measured in turn, and the document of several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cross_backend.machine import Machine
from cross_backend.records.numbers import finite
from cross_backend.records.result import Result
from cross_backend.records.shown import report_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from cross_backend.report.picture import Picture

SCHEMA = 2
"""Version of the JSON document. History: 1, the first; 2, results have their ``ratio`` to the leader, and ``panels``
says of each panel how it was measured and from what size on a difference is found. Nothing was taken away."""


@dataclass(frozen=True)
class Launch:
    """One pass over a panel: every target in a process of its own, visited in interleaved rounds."""

    results: tuple[Result, ...]
    """In the order of the targets; measurements are this pass' alone, and nothing is ranked. Who was not started again,
    because its place was decided, has none."""
    twin: Result | None = None
    """One of them again, in a further process: what differs from it differs by chance."""
    twin_of: int | None = None
    """Its index in ``results``."""
    warnings: tuple[str, ...] = ()
    """What disturbed the whole machine meanwhile, by cause."""
    seconds: float = 0.0
    """Wall time of the pass."""
    program: str = ""
    """Digest of the captured workload; empty where none was captured, and in launches of older versions."""
    proof: Mapping[str, Any] = field(default_factory=dict)
    """What was compared with, and what sample and probes reach: ``Captured.proof``; empty in older versions."""
    lost: str | None = None
    """Why the machine that measured could not be reached any more; None where it could."""


@dataclass(frozen=True)
class PanelKey:
    """Which panel of a study."""

    workload: str
    """Without the batch."""
    batch: int
    threads: int

    @classmethod
    def of(cls, panel: Panel) -> PanelKey:
        """Return which panel results are of."""
        return cls(panel.workload, panel.batch, int(panel.settings.get("threads") or 1))

    def __str__(self) -> str:
        return f"{self.workload}, batch {self.batch}, {self.threads} thread{'s' if self.threads > 1 else ''}"


@dataclass(frozen=True)
class Panel:
    """The results of one workload, measured interleaved on one machine.

    Example:
        >>> panel = xb.compare(program, ["torch", "xnnpack"])  # doctest: +SKIP
        >>> print(panel)  # the table of the command line  # doctest: +SKIP
        >>> fastest = panel.ranked[0]  # doctest: +SKIP
        >>> panel.to_pandas()[["target", "latency_median_ms", "ratio"]]  # doctest: +SKIP
    """

    workload: str
    results: tuple[Result, ...]
    """In the order of the targets."""
    noise_floor: float | None
    """Natural logarithm of the smallest ratio that is believed (0.02 is 2 %); None when it was not measured."""
    settings: Mapping[str, Any]
    """How it was measured: runs, seconds, threads, seed."""
    machine: Machine
    interrupted: bool = False
    """Whether it was stopped early; what was finished is here."""
    batch: int = 1
    """Extent of the batch dimension."""
    launches: int = 1
    """How many times each target was started."""
    warnings: tuple[str, ...] = ()
    """What disturbed the whole machine, by cause."""
    proof: Mapping[str, Any] = field(default_factory=dict)
    """What outputs were compared with (``reference``), and what sample and probes reach; see ``Launch.proof``."""
    found_from: float | None = None
    """Smallest relative difference (0.05 is 5 %) of two targets that 95 of 100 such comparisons detect; fewer detect a
    smaller one. None where nothing could be compared."""
    place: str = "local"
    """Where it was measured, as the user named it."""
    lost: str | None = None
    """Why that machine could not be reached any more; None where it could."""

    @property
    def ranked(self) -> list[Result]:
        """The results that have a rank, fastest first: within a rank by what they differ from the leader."""

        def place(result: Result) -> tuple[int, float, float]:
            assert result.rank is not None and result.latency_ms is not None
            return result.rank, result.ratio.value if result.ratio else math.inf, result.latency_ms.value

        return sorted((r for r in self.results if r.rank is not None and r.latency_ms is not None), key=place)

    def to_json(self) -> dict[str, Any]:
        """Return what the JSON document says of the panel beside its results."""
        return {
            "workload": self.workload,
            "batch": self.batch,
            "threads": self.settings.get("threads"),
            "noise_floor": self.noise_floor,
            "found_from": None if self.found_from is None else finite(self.found_from),
            "launches": self.launches,
            "interrupted": self.interrupted,
            "place": self.place,
            "lost": self.lost,
            "machine": self.machine.to_json(),
            "warnings": list(self.warnings),
            "proof": dict(self.proof),
            "settings": dict(self.settings),
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document that ``cross-backend compare --json`` prints, of this panel."""
        return document([self], self.machine)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row a target; units are in the names of the columns.

        Raises:
            UnavailableError: pandas is not installed.
        """
        return report_of("frames").pandas([self])

    def to_polars(self) -> pl.DataFrame:
        """Return a row a target; units are in the names of the columns.

        Raises:
            UnavailableError: Polars is not installed.
        """
        return report_of("frames").polars([self])

    def plot(self, kind: str = "latency") -> Picture:
        """Draw a chart of the report; a notebook shows it, and ``save`` writes it.

        Args:
            kind: ``latency``: a box and a density a target; ``ratio``: how many times the fastest one's latency.

        Raises:
            UsageError: an unknown kind, or there is nothing to draw.
        """
        picture: Picture = report_of("picture").picture(self, kind)
        return picture

    def __str__(self) -> str:
        """Return the table that a terminal shows."""
        return str(report_of("printed").text(self))

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows."""
        return str(report_of("notebook").panel_html(self))


def document(panels: Sequence[Panel], machine: Machine) -> dict[str, Any]:
    """Return the one JSON document of a comparison; its noise floor is the largest of all panels."""
    floors = [panel.noise_floor for panel in panels if panel.noise_floor is not None]
    return {
        "schema": SCHEMA,
        "machine": machine.to_json(),
        "noise_floor": max(floors) if floors else None,
        "settings": dict(panels[0].settings) if panels else {},
        "interrupted": any(panel.interrupted for panel in panels),
        "panels": [panel.to_json() for panel in panels],
        "results": [
            {
                **result.to_json(),
                "batch": panel.batch,
                "threads": panel.settings.get("threads"),
                "place": panel.place,
                "noise_floor": panel.noise_floor,
            }
            for panel in panels
            for result in panel.results
        ],
    }
