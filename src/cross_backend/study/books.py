"""Books: what is stored of one study on one class of machines, kept apart by kind of machine."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

from cross_backend.records import Further, Launch, Panel, PanelKey
from cross_backend.store import Store
from cross_backend.study.kinds import MachineKind
from cross_backend.study.measuring import Stored, panel_of
from cross_backend.study.spec import StudySpec


class Book:
    """The stored studies of one class: one for every kind of machine that took part.

    What is stored of panels that are not finished is held here; samples of finished ones are in the store only.
    """

    def __init__(self, store: Store, study: StudySpec) -> None:
        """Prepare; nothing is claimed yet.

        Args:
            store: where it is kept.
            study: of one place or one class of machines.
        """
        self.study = study
        self.finished: set[PanelKey] = set()
        """Panels that need nothing more."""
        self._store = store
        self._numbers: dict[str, int] = {}
        self._stored: dict[PanelKey, dict[str, Stored]] = {}

    @property
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the stored studies."""
        return tuple(self._numbers.values())

    def begin(self, kind: MachineKind) -> None:
        """Claim the unfinished stored study of a kind of machine, else a new one.

        Raises:
            StoreError: another process runs it, or the database cannot be used.
        """
        if kind.digest in self._numbers:
            return
        one = self.study
        row = self._store.begin(one.name, one.to_json(), one.digest, kind.machine, kind.versions)
        self._numbers[kind.digest] = row.id
        for panel in self._store.panels(row.id):
            if panel.finished:
                self.finished.add(panel.key)
            else:
                launches = tuple(self._store.launches(row.id, panel.key))
                further = self._store.instruments(row.id, panel.key)
                self._stored.setdefault(panel.key, {})[kind.digest] = Stored(launches, further)

    def resume(self) -> None:
        """Claim every stored study of this class that is not finished, whatever kind of machine it is of."""
        for row in self._store.unfinished(self.study.name, self.study.digest):
            self.begin(MachineKind(row.machine, row.versions))

    def stored(self, key: PanelKey) -> Mapping[str, Stored]:
        """Return kind → what is stored of a panel that is not finished."""
        return self._stored.get(key, {})

    def keep_launch(self, kind: MachineKind, key: PanelKey, index: int, launch: Launch) -> None:
        """Write a launch to the disk.

        Raises:
            StoreError: it could not be written.
        """
        before = self._of(kind, key)
        if len(before.launches) > index and before.launches[index] == launch:
            return
        self._store.keep_launch(self._numbers[kind.digest], key, index, launch)
        self._stored[key][kind.digest] = replace(before, launches=(*before.launches, launch))

    def keep_further(self, kind: MachineKind, key: PanelKey, target: int, further: Further) -> None:
        """Write what the further instruments gave for a target.

        Raises:
            StoreError: it could not be written.
        """
        before = self._of(kind, key)
        self._store.keep_instruments(self._numbers[kind.digest], key, target, further)
        self._stored[key][kind.digest] = replace(before, further={**before.further, target: further})

    def together(self) -> AbstractContextManager[None]:
        """Write what is kept and finished inside at once, at its end; as :meth:`Store.together`."""
        return self._store.together()

    def finish_panel(self, kind: MachineKind, key: PanelKey) -> Panel:
        """Write down that all of a panel is there, with the fastest for lists of studies, and return it."""
        panel = panel_of(self.study, key, self._of(kind, key), kind.machine)
        fastest = [result.title for result in panel.ranked if result.rank == 1]
        self._store.finish_panel(self._numbers[kind.digest], key, {"fastest": fastest})
        self.finished.add(key)
        self._stored.pop(key, None)
        return panel

    def _of(self, kind: MachineKind, key: PanelKey) -> Stored:
        return self._stored.setdefault(key, {}).setdefault(kind.digest, Stored())
