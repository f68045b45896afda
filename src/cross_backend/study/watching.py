"""Watching: the progress of a study on standard error, with the time that is left."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cross_backend.cache import Cache
from cross_backend.comparison.sites import site_at
from cross_backend.export.export import lines
from cross_backend.places.address import parse
from cross_backend.records import Outcome, Panel, PanelKey, StudyResults
from cross_backend.report import figures
from cross_backend.report.progress import Show
from cross_backend.report.terminal import Terminal
from cross_backend.store import Store
from cross_backend.study.driver import Watch, run
from cross_backend.study.estimate import Estimate, plan
from cross_backend.study.spec import Study


@contextmanager
def watching(terminal: Terminal, study: Study, cache: Cache) -> Iterator[Watch]:
    """Return what the driver tells its progress to: a bar with the time left, and a line per finished panel."""
    if terminal.quiet:
        yield Watch()
        return
    with terminal.progress() as show:
        shown = _Shown(terminal, show, plan(study, cache)[1])
        try:
            yield Watch(shown.begin, shown.progress, lines(show), shown.stored, shown.panel)
        except KeyboardInterrupt:
            terminal.note("Stopped; what was finished is stored, and the same command goes on from there.")
            raise


def run_at(study: Study, store: Store, cache: Cache, terminal: Terminal, via: str | None = None) -> StudyResults:
    """Run a study on its one machine, and show the progress.

    Raises:
        PlaceError: the machine cannot be reached, or was lost.
    """
    address = parse(study.places[0])
    with (
        site_at(address, cache, via if address.kind != "local" else None) as site,
        watching(terminal, study, cache) as watch,
    ):
        return run(study, store, cache, watch, site)


class _Shown:
    """The bar: which panels are left, how far the current one is, and how long the finished ones took."""

    def __init__(self, terminal: Terminal, show: Show, whole: Estimate) -> None:
        self._terminal, self._show, self._whole = terminal, show, whole
        self._left = whole
        self._finished_s: list[float] = []
        self._begun = time.monotonic()

    def begin(self, indices: Sequence[int]) -> None:
        """Take what is left to do; the rest is stored already."""
        self._left = replace(self._whole, panels=tuple(self._whole.panels[index] for index in indices))
        stored = len(self._whole.panels) - len(indices)
        already = f"{stored} of {len(self._whole.panels)} panels are stored already; " if stored else ""
        panels = f"{len(indices)} panel{'s' if len(indices) != 1 else ''}"
        self._terminal.note(f"🚀 {already}{panels} to go, {self._left.total}. {self._left.basis}")

    def progress(self, doing: str, share: float) -> None:
        """Show what is done, and what share of the current panel is behind."""
        weights = [math.sqrt(one.low * one.high) for one in self._left.panels]
        done = len(self._finished_s)
        current = weights[done] if done < len(weights) else 0.0
        behind = (sum(weights[:done]) + share * current) / (sum(weights) or 1.0)
        left = self._left.left(self._finished_s, share, time.monotonic() - self._begun)
        self._show("study", doing, min(behind, 0.999), str(left))

    def stored(self, key: PanelKey, what: str) -> None:
        """Tell a log what is kept; on a terminal the bar moves instead."""
        if not self._terminal.has_bars:
            self._terminal.note(f"{key}: {what}: stored")

    def panel(self, panel: Panel) -> None:
        """Tell how a panel ended, in one line."""
        now = time.monotonic()
        self._finished_s.append(now - self._begun)
        self._begun = now
        first = [
            f"{r.title} {figures.duration(r.latency_ms.value, r.latency_ms)}"
            for r in panel.ranked
            if r.rank == 1 and r.latency_ms
        ]
        fastest = f"fastest {' and '.join(first)}" if first else "nothing is ranked"
        key = PanelKey(panel.workload, panel.batch, int(panel.settings["threads"]))
        right = sum(result.outcome is Outcome.OK for result in panel.results)
        self._terminal.note(
            f"{'✅' if first else '⚠️'} {len(self._finished_s)}/{len(self._left.panels)} {key}: {fastest}; "
            f"{right} of {len(panel.results)} targets verified, {self._finished_s[-1]:.0f} s"
        )
