"""Shelf: the stored studies, as pages and the API read them; what was put together is kept for the next reader."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from cross_backend.errors import UsageError
from cross_backend.records import PanelKey, StudyResults
from cross_backend.store import Store
from cross_backend.store.database import Database
from cross_backend.store.rows import PanelRow, StudyRow
from cross_backend.study.driver import read
from cross_backend.study.history import Moment, history

MOST_KEPT = 8
"""Studies that stay in memory."""


MOST_SAMPLES = 100_000
"""Of a study whose fastest target is worked out for a list; newer studies have it stored."""


@dataclass(frozen=True)
class Listed:
    """A study in the list of the page."""

    row: StudyRow
    models: tuple[str, ...]
    fastest: tuple[str, ...]
    """Of its panels, of most panels first; empty where none is known."""
    machine: str
    """Its processor."""

    def holds(self, text: str) -> bool:
        """Whether a text that somebody looks for is in what the list shows."""
        shown = (str(self.row.id), self.row.name, self.row.started, *self.models, *self.fastest, self.machine)
        return text in " ".join(shown).lower()


class NotFoundError(UsageError):
    """There is no such thing at this address."""


class Shelf:
    """Reads a database; threads may ask at once. A database that is not there yet holds no study."""

    def __init__(self, db: str | None) -> None:
        self._db = db
        self._kept: OrderedDict[tuple[int, int, int, str | None], StudyResults] = OrderedDict()
        self._lock = threading.Lock()

    def _is_there(self) -> bool:
        path = Database.named(self._db).path
        return path is None or path.exists()

    def open(self) -> Store:
        """Open the database; the caller closes it.

        Raises:
            StoreError: it cannot be read, or is not there.
        """
        return Store.open(self._db, create=False)

    def studies(self) -> list[StudyRow]:
        """Return all studies, the latest first."""
        if not self._is_there():
            return []
        with self.open() as store:
            return store.studies()[::-1]

    def listed(self) -> list[Listed]:
        """Return all studies with what a list says of them, the latest first."""
        if not self._is_there():
            return []
        with self.open() as store:
            found = [(row, store.study(row.id).machine.cpu, store.panels(row.id)) for row in store.studies()[::-1]]
        return [
            Listed(row, tuple(dict.fromkeys(one.key.workload for one in panels)), self._fastest(row, panels), cpu)
            for row, cpu, panels in found
        ]

    def _fastest(self, row: StudyRow, panels: Sequence[PanelRow]) -> tuple[str, ...]:
        """Return the fastest targets, of most panels first; older studies are worked out where they are small."""
        leaders = [one.note["fastest"] for one in panels if isinstance(one.note.get("fastest"), list)]
        if not leaders and row.samples <= MOST_SAMPLES:
            whole = self.results(row.id).panels
            leaders = [[result.title for result in panel.ranked if result.rank == 1] for panel in whole]
        return tuple(title for title, _ in Counter(str(title) for names in leaders for title in names).most_common())

    def row(self, number: int) -> StudyRow:
        """Return one study as the list has it.

        Raises:
            NotFoundError: there is none of that number.
        """
        found = next((row for row in self.studies() if row.id == number), None)
        if found is None:
            raise NotFoundError(f"there is no study {number}.")
        return found

    def results(self, number: int) -> StudyResults:
        """Return a study's results; put together again where launches were added.

        Raises:
            NotFoundError: there is none of that number.
        """
        row = self.row(number)
        key = row.id, row.launches, row.samples, row.finished
        with self._lock:  # one reader works it out, the others wait for it
            if key not in self._kept:
                with self.open() as store:
                    self._kept[key] = read(store, number)
                while len(self._kept) > MOST_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def history(self, number: int, key: PanelKey, target: str) -> list[Moment]:
        """Return a target's moments in all studies of the same name, up to now."""
        name = self.row(number).name
        numbers = sorted(row.id for row in self.studies() if row.name == name)
        return history([(one, self.results(one)) for one in numbers], key, target)
