"""Driver of a study: which panels are left, who measures them, and what all of it gave.

study ──▶ panels ──▶ launcher: export ──▶ launches (each stored) ──▶ instruments (stored) ──▶ the panel is finished
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from cross_backend.cache import Cache
from cross_backend.comparison.site import HERE, Site
from cross_backend.records import Panel, PanelKey, StudyPart, StudyResults
from cross_backend.store.database import explained
from cross_backend.study.books import Book
from cross_backend.study.launchers.here import LocalLauncher
from cross_backend.study.launchers.launcher import Launcher, PanelJob
from cross_backend.study.measuring import Stored, panel_of
from cross_backend.study.spec import StudySpec
from cross_backend.study.watch import Watch

if TYPE_CHECKING:
    from cross_backend.store import Store, StoredStudy


def run(
    study: StudySpec, store: Store, cache: Cache, watch: Watch | None = None, site: Site = HERE, *, pauses: bool = False
) -> StudyResults:
    """Run a study on one machine, or go on with the unfinished one of the same content on the same machine.

    Args:
        study: of one machine.
        store: where it is kept.
        cache: where artifacts and logs go.
        watch: told of every step.
        site: that machine.
        pauses: whether each panel gets one launch more, and no panel two.

    Raises:
        KeyboardInterrupt: it was stopped; what was finished is stored, and the same call goes on.
        PlaceError: the machine was lost; likewise.
        CrossBackendError: the store cannot be used.
    """
    return run_by(study, store, LocalLauncher(cache, site, pauses=pauses), watch)[0]


def run_by(
    study: StudySpec, store: Store, launcher: Launcher, watch: Watch | None = None
) -> tuple[StudyResults, Sequence[str]]:
    """Run a study by a launcher, or go on with what it has measured of the same content.

    Args:
        study: what is measured, on every class of machines that it names.
        store: where it is kept.
        launcher: who measures.
        watch: told of every step.

    Returns:
        The results, and why panels are missing: a line each.

    Raises:
        KeyboardInterrupt, PlaceError, CrossBackendError: as :func:`run`.
    """
    watch = watch or Watch()
    books = [Book(store, one) for one in launcher.studies(study)]
    specs = study.panels()
    for book in books:
        launcher.claim(book)
    left = [index for book in books for index, spec in enumerate(specs) if spec.key not in book.finished]
    watch.begin(left, len(books))
    jobs = [PanelJob(book, spec) for spec in specs for book in books if spec.key not in book.finished]
    missing = launcher.launch(jobs, watch)
    if all({spec.key for spec in specs} <= book.finished for book in books):  # else the same command goes on
        store.finish(*(number for book in books for number in book.numbers))
    return joined([of_class(store, book.study, book.numbers) for book in books if book.numbers]), missing


def of_class(store: Store, study: StudySpec, numbers: Sequence[int]) -> StudyResults:
    """Return the results of one class; of a panel that several kinds of machines began, those of who finished it.

    Args:
        store: where they are.
        study: of the class.
        numbers: of the stored studies of its kinds of machines; of two that finished a panel, the later one counts.
    """
    found = [read(store, number) for number in numbers]
    if len(found) == 1:
        return found[0]
    begun: dict[PanelKey, Panel] = {}
    for number, results in zip(numbers, found, strict=True):
        finished = store.finished_panels(number)
        for panel in results.panels:
            key = PanelKey.of(panel)
            if key in finished or key not in begun:
                begun[key] = panel
    ordered = (begun[spec.key] for spec in study.panels() if spec.key in begun)
    return replace(joined(found), panels=tuple(ordered))


def read(store: Store, study_id: int) -> StudyResults:
    """Put together what is stored of a study.

    Raises:
        StoreError: it cannot be read, or is not what this program stores: the database may be anybody's.
    """
    row = store.study(study_id)
    with explained(store.place, "use"):
        return _read(store, study_id, row)


def _read(store: Store, study_id: int, row: StoredStudy) -> StudyResults:
    study = StudySpec.from_json(row.spec)
    panels = []
    specs = study.panels()
    for spec in specs:
        key = spec.key
        launches = tuple(store.launches(study_id, key))
        if launches:
            stored = Stored(launches, store.instruments(study_id, key))
            panels.append(panel_of(study, key, stored, row.machine))
    settings, finished = asdict(study.settings), row.finished is not None
    done = len(store.finished_panels(study_id))
    where = study.where_measured
    part = StudyPart(where, study_id, row.machine, row.versions, row.started, finished, done, len(specs))
    return StudyResults(
        row.name, tuple(panels), row.machine, row.versions, settings, row.started, finished, parts=(part,)
    )


def joined(found: Iterable[StudyResults]) -> StudyResults:
    """Return the results of one study on several machines as one; panels say where they were measured."""
    first, *others = found
    if not others:
        return first
    panels = tuple(panel for results in (first, *others) for panel in results.panels)
    parts = tuple(part for results in (first, *others) for part in results.parts)
    finished = all(results.finished for results in (first, *others))
    return replace(first, panels=panels, finished=finished, parts=parts)
