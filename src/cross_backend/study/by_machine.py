"""By machine: what is stored of one study on all the machines, or classes of machines, that measured it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from cross_backend.records import StudyResults
from cross_backend.study.driver import joined, of_class, read
from cross_backend.study.spec import StudySpec

if TYPE_CHECKING:
    from cross_backend.store import Store, StoredStudy

_ELSEWHERE = ("machines", "output", "places")
"""Keys of a study's JSON that say nothing of what is measured."""


def read_by_machine(store: Store, asked: str) -> StudyResults:
    """Return the newest results of a study on each of its machines; of a number, that stored study alone.

    Args:
        store: where they are.
        asked: name or number.

    Raises:
        UsageError: there is none of that name or number.
        StoreError: it cannot be read.
    """
    row = store.find(asked)
    if str(row.id) == asked:
        return read(store, row.id)
    named = store.named(row.name)
    alike = [(one, StudySpec.from_json(one.spec)) for one in named if _content(one) == _content(named[-1])]
    found: dict[str, list[StoredStudy]] = {study.where_measured: [] for _, study in alike}
    for one, study in reversed(alike):
        known = found[study.where_measured]
        if not known or (study.machines and any(_in_one_run(one, other) for other in known)):
            known.append(one)
    studies = {study.where_measured: study for _, study in alike}
    return joined([of_class(store, studies[where], [r.id for r in reversed(rows)]) for where, rows in found.items()])


def _content(row: StoredStudy) -> dict[str, Any]:
    return {key: value for key, value in row.spec.items() if key not in _ELSEWHERE}


def _in_one_run(one: StoredStudy, other: StoredStudy) -> bool:
    """Whether two kinds of machines of a class measured at the same time: a run ends for all of them at once."""

    def ended(row: StoredStudy) -> dt.datetime:
        return dt.datetime.fromisoformat(row.finished) if row.finished else dt.datetime.max.replace(tzinfo=dt.UTC)

    begun = [dt.datetime.fromisoformat(row.started) for row in (one, other)]
    return begun[0] <= ended(other) and begun[1] <= ended(one)
