"""The local launcher: panel after panel on one machine: this one, or one at a place."""

from __future__ import annotations

from collections.abc import Sequence

from cross_backend.cache import Cache
from cross_backend.comparison.panel import enough
from cross_backend.comparison.site import HERE, Site
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.records import Further, Launch
from cross_backend.study.books import Book
from cross_backend.study.kinds import MachineKind, versions_of
from cross_backend.study.launchers.launcher import Launcher, PanelJob
from cross_backend.study.measuring import Keep, Stored, measure, settings_of
from cross_backend.study.spec import StudySpec
from cross_backend.study.watch import Watch


class _Paused(Exception):  # noqa: N818  no error
    """A panel had its launch."""


class LocalLauncher(Launcher):
    """Measures here, one panel at a time."""

    def __init__(self, cache: Cache, site: Site = HERE, *, pauses: bool = False) -> None:
        """Prepare.

        Args:
            cache: where artifacts and logs go.
            site: machine that measures; capturing and lowering are done here.
            pauses: whether each panel gets one launch more, and no panel two; the same call goes on.
        """
        self._cache, self._site, self._pauses = cache, site, pauses

    def studies(self, study: StudySpec) -> tuple[StudySpec, ...]:  # noqa: D102  the declaration says it
        return (study,)

    def claim(self, book: Book) -> None:  # noqa: D102
        book.begin(self._kind(book.study))

    def launch(self, jobs: Sequence[PanelJob], watch: Watch) -> Sequence[str]:  # noqa: D102
        for job in jobs:
            kind = self._kind(job.book.study)
            try:
                self._measure(job, kind, watch)
            except _Paused:
                continue
            watch.panel(job.book.finish_panel(kind, job.key))
        return ()

    def _kind(self, study: StudySpec) -> MachineKind:
        return MachineKind(self._site.machine, versions_of(study.panels()[0].targets))

    def _measure(self, job: PanelJob, kind: MachineKind, watch: Watch) -> None:
        key, asked = job.key, job.book.study.settings
        exporting = ExportSettings(self._cache, asked.jobs, asked.timeout_s, min_coverage=asked.min_coverage)

        def keep_launch(index: int, launch: Launch) -> None:
            job.book.keep_launch(kind, key, index, launch)
            watch.stored(key, f"launch {index + 1}")
            launches = job.book.stored(key)[kind.digest].launches
            if self._pauses and not enough(launches, settings_of(asked, key.threads)):
                raise _Paused

        def keep_further(target: int, title: str, further: Further) -> None:
            job.book.keep_further(kind, key, target, further)
            watch.stored(key, f"further measurements of {title}")

        measure(
            job.spec,
            asked,
            job.book.stored(key).get(kind.digest, Stored()),
            lambda: export(job.spec.workload.source(job.spec.batch), job.spec.targets, exporting, watch.observe),
            self._cache,
            self._site,
            Keep(keep_launch, keep_further, lambda doing, share: watch.progress(f"{key}: {doing}", share)),
        )
