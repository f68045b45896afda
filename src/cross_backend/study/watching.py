"""Watching: the progress of a study on standard error, with the time that is left."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from cross_backend.cache import Cache
from cross_backend.comparison.sites import site_at
from cross_backend.exporting.export import lines
from cross_backend.places.address import parse
from cross_backend.records import Outcome, Panel, PanelKey, StudyResults
from cross_backend.report import figures
from cross_backend.report.terminal import Terminal
from cross_backend.store import Store
from cross_backend.study.driver import joined, run, run_by
from cross_backend.study.estimate import Estimate, Seconds, plan
from cross_backend.study.published import Published, publishing
from cross_backend.study.spec import StudySpec
from cross_backend.study.watch import ClassProgress, Watch

logger = logging.getLogger(__name__)


@contextmanager
def watching(terminal: Terminal, study: StudySpec, cache: Cache, database: str = "") -> Iterator[Watch]:
    """Return what the driver reports its progress to: a bar with the time left, and a line per finished panel.

    Args:
        terminal: shows it.
        study: what is measured.
        cache: where pages of this machine find the progress.
        database: digest of the place of the results, by which they find it.
    """
    with terminal.progress() as then, publishing(cache, study.name, database, then) as show:
        shown = _Shown(terminal, show, plan(study, cache)[1])
        try:
            told = (shown.begin, shown.progress, lines(show), shown.stored, shown.panel, shown.machine, shown.classes)
            yield Watch(*told, note=shown.note)
        except KeyboardInterrupt:
            terminal.note("Stopped. Finished work is stored; the same command resumes.")
            raise


def run_at(
    study: StudySpec, store: Store, cache: Cache, terminal: Terminal, via: str | None = None, *, pauses: bool = False
) -> StudyResults:
    """Run a study on its one machine, and show the progress.

    Raises:
        PlaceError: the machine cannot be reached, or was lost.
    """
    address = parse(study.places[0])
    with (
        site_at(address, cache, via if address.kind != "local" else None) as site,
        watching(terminal, study, cache, store.place.digest) as watch,
    ):
        return run(study, store, cache, watch, site, pauses=pauses)


def run_everywhere(
    study: StudySpec, store: Store, cache: Cache, terminal: Terminal, via: str | None = None, *, pauses: bool = False
) -> StudyResults:
    """Run a study on one machine of its places after the other."""
    return joined([run_at(study.at(place), store, cache, terminal, via, pauses=pauses) for place in study.places])


def run_by_machines(
    study: StudySpec,
    store: Store,
    cache: Cache,
    terminal: Terminal,
    address: str | None,
    shared: str | None,
    max_noise: float,
) -> tuple[StudyResults, Sequence[str]]:
    """Run a study on a Ray cluster, and show the progress of every machine.

    Args:
        study: what is measured.
        store: where it is kept.
        cache: of this machine; it shows what was lowered already.
        terminal: shows the progress.
        address: of the cluster's head; None for the one of this machine.
        shared: URL of the shared cache; None for Ray's object store.
        max_noise: noise floor from which on a machine is set aside.

    Returns:
        The results, and why panels are missing.

    Raises:
        UnavailableError, PlaceError, UsageError: no Ray, no cluster, a class without machines.
    """
    from cross_backend.study.launchers.cluster import connected
    from cross_backend.study.launchers.parcels import SharedFolder
    from cross_backend.study.launchers.ray import RayLauncher

    if shared is not None:
        SharedFolder(shared).check()
    with connected(address) as cluster:
        launcher = RayLauncher(cluster, shared, max_noise)
        with watching(terminal, study, cache, store.place.digest) as watch:
            return run_by(study, store, launcher, watch)


class _Shown:
    """The bar: which panels are left, how far the current one is, and how long the finished ones took."""

    def __init__(self, terminal: Terminal, show: Published, whole: Estimate) -> None:
        self._terminal, self._show, self._whole = terminal, show, whole
        self._left = whole
        self._finished_s: list[float] = []
        self._begun = time.monotonic()

    def begin(self, indices: Sequence[int], classes: int = 1) -> None:
        """Take what is left to do; the rest is stored already."""
        left = tuple(self._whole.panels[index] for index in indices)
        self._left = replace(self._whole, panels=left)
        whole = len(self._whole.panels) * classes
        stored = whole - len(indices)
        already = f"{stored} of {whole} panels are stored already; " if stored else ""
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

    def machine(self, name: str, doing: str, share: float | None) -> None:
        """Show what one of several machines does."""
        self._show(name, f"{name}: {doing}", share if share is None else min(share, 0.999))

    def classes(self, classes: Sequence[ClassProgress]) -> None:
        """Show how far each class is, what its panels wait for, and the time left of it and of the slowest."""
        for one in classes:
            left = "" if one.left_s is None else str(Seconds(one.left_s, one.left_s))
            self._show(f"class {one.name}", str(one), min(one.finished / one.asked, 0.999), left)
        done, of = (sum(counts) for counts in zip(*((one.finished, one.asked) for one in classes), strict=True))
        known = [one.left_s for one in classes if one.left_s is not None]
        left = str(Seconds(max(known), max(known))) if len(known) == len(classes) else ""
        machines = sum(one.machines for one in classes)
        self._show("study", f"{done} of {of} panels, {machines} machines", min(done / of, 0.999), left)

    def note(self, text: str) -> None:
        """Tell what a user should know."""
        logger.info("%s", text)
        self._show.note(text)
        self._terminal.note(text)

    def stored(self, key: PanelKey, what: str) -> None:
        """Tell a log what is kept; on a terminal the bar moves instead."""
        logger.info("%s: %s: stored", key, what)
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
        right = sum(result.outcome is Outcome.OK for result in panel.results)
        text = (
            f"{len(self._finished_s)}/{len(self._left.panels)} {PanelKey.of(panel)}: {fastest}; "
            f"{right} of {len(panel.results)} targets verified, {self._finished_s[-1]:.0f} s"
        )
        logger.info("%s", text)
        self._terminal.note(f"{'✅' if first else '⚠️'} {text}")
