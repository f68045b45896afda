"""Store: studies in a database, each record written in one transaction, and nothing lost when that cannot be done.

Imports SQLAlchemy, so is imported late.
"""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from cross_backend.errors import StoreError, unknown_name
from cross_backend.machine import Machine
from cross_backend.records import Further, Launch, PanelKey
from cross_backend.store import queries, spool
from cross_backend.store.claims import Claim, claim
from cross_backend.store.database import BUSY_S, Database, explained
from cross_backend.store.rows import PanelRow, StoredStudy, StudyRow, from_packet, to_packet
from cross_backend.store.transactions import Transactions

T = TypeVar("T")


class Store:
    """An open database of studies, used in ``with``; several processes may read and write one at once."""

    def __init__(self, database: Transactions) -> None:
        self.place = database.place
        self.told: list[str] = []
        """What a user should know: records that were taken in, that wait, or that never can be."""
        self._database = database
        self._claims: dict[int, Claim] = {}
        self._uids: dict[int, str] = {}
        self._joint: list[spool.Entry] | None = None
        """Records of the transaction that is open; None where each has its own."""

    @classmethod
    def open(cls, where: str | None = None, *, create: bool = True, busy_s: float = BUSY_S) -> Self:
        """Open a database, create it where there is none, and bring its tables to this version.

        What an earlier command could not write is taken in. A database that can only be read is opened all the same;
        what writes to it then says why it cannot.

        Args:
            where: a path, or ``postgresql://…``; else the environment's ``CROSS_BACKEND_DB``, else this user's folder.
            create: whether to make a database where there is none.
            busy_s: how long to wait for a lock that another process holds, seconds.

        Raises:
            StoreError: damaged, unreachable, of a newer version, or absent and not to be made.
            UsageError: ``where`` names no database.
            UnavailableError: PostgreSQL's driver is not installed.
        """
        store = cls(Transactions.open(Database.named(where), create=create, busy_s=busy_s))
        store._settle()
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what is claimed, and close what is open."""
        for study_id in list(self._claims):
            self._release(study_id)
        self._database.close()

    # -- running a study ------------------------------------------------------------------------------------------

    def begin(
        self, name: str, spec: Mapping[str, Any], digest: str, machine: Machine, versions: Mapping[str, str]
    ) -> StoredStudy:
        """Claim the unfinished study of this name and digest on this machine with these versions, else a new one.

        Measurements of other machines or versions are never continued: they would be mixed.

        Args:
            name: how it is found again.
            spec: what is asked for; JSON can hold it.
            digest: of what is asked for.
            machine: where.
            versions: distribution → version, of what takes part.

        Raises:
            StoreError: another process runs it, or the database cannot be written.
        """
        self._take_in()
        driver = f"process {os.getpid()} on {platform.node()} since {queries.now()}"
        while True:
            study = self._database.write(queries.begin, name, spec, digest, machine, versions)
            self._claim(study)
            if self._database.write(queries.take_over, study.id, driver):
                return self.study(study.id)
            self._release(study.id, for_good=True)  # another process finished it between the two

    def keep_launch(self, study_id: int, panel: PanelKey, number: int, launch: Launch) -> None:
        """Write a launch; when this returns it is on the disk, and survives the process and a power cut.

        Args:
            study_id: of a study that was begun here.
            panel: which.
            number: of the launch in this panel, from 0.
            launch: its samples.

        Raises:
            StoreError: it could not be written; ``spooled`` says in which file it waits, or it is lost.
        """
        self._keep(study_id, panel, "launch", number, len(launch.results), launch)

    def keep_instruments(self, study_id: int, panel: PanelKey, target: int, further: Further) -> None:
        """Write what the further instruments gave for one target; as :meth:`keep_launch`.

        Args:
            study_id: of a study that was begun here.
            panel: which.
            target: its index in the launches' results.
            further: its measurements, and why others are absent.
        """
        self._keep(study_id, panel, "instruments", target, 1, further)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write what is kept and finished inside in one transaction: it is on the disk when this ends.

        Raises:
            StoreError: it could not be written; each record waits in a file, or is lost, as :meth:`keep_launch` says.
        """
        with contextlib.ExitStack() as transaction:
            with contextlib.suppress(StoreError):  # then each record has its own, which says why it cannot be written
                transaction.enter_context(self._database.together())
                self._joint = []
            try:
                yield
                transaction.close()
            except StoreError as error:
                raise (self._spooled(self._joint, error) if self._joint else error) from error
            finally:
                self._joint = None
        self._settle()

    def finish_panel(self, study_id: int, panel: PanelKey, note: Mapping[str, Any] | None = None) -> None:
        """Write down that a panel needs nothing more, and whatever is to be known of it; JSON can hold the note."""
        self._database.write(queries.finish_panel, study_id, panel, note or {})

    def finish(self, *studies: int) -> None:
        """Write down that all panels of these are there, at once, and return them back."""
        self._database.write(queries.finish_studies, studies)
        for study_id in studies:
            self._release(study_id, for_good=True)

    # -- reading --------------------------------------------------------------------------------------------------

    def studies(self) -> list[StudyRow]:
        """Return all studies, oldest first, without reading their samples."""
        return self._database.read(queries.studies)

    def find(self, name_or_number: str) -> StudyRow:
        """Return a study by its number, or the latest of that name.

        Raises:
            UsageError: there is none; says which names are near.
        """
        rows = self.studies()
        named = [row for row in rows if str(row.id) == name_or_number]
        named = named or [row for row in rows if row.name == name_or_number]
        if not named:
            raise unknown_name("study", name_or_number, {row.name for row in rows})
        return named[-1]

    def study(self, study_id: int) -> StoredStudy:
        """Return what a study was asked to do, and where."""
        study = self._database.read(queries.study, study_id)
        self._uids[study_id] = study.uid
        return study

    def named(self, name: str) -> list[StoredStudy]:
        """Return the studies of a name, oldest first, without reading their samples."""
        return self._database.read(queries.named, name)

    def unfinished(self, name: str, digest: str) -> list[StoredStudy]:
        """Return the studies of a name and digest that lack panels, of all machines and versions, oldest first."""
        return self._database.read(queries.unfinished, name, digest)

    def panels(self, study_id: int) -> list[PanelRow]:
        """Return the panels that were begun, in that order, without reading their samples."""
        return self._database.read(queries.panels, study_id)

    def finished_panels(self, study_id: int) -> set[PanelKey]:
        """Return the panels that need nothing more."""
        return {row.key for row in self.panels(study_id) if row.finished}

    def launches(self, study_id: int, panel: PanelKey) -> list[Launch]:
        """Return a panel's launches in order."""
        return [launch for _, launch in self.records(study_id, panel, Launch)]

    def instruments(self, study_id: int, panel: PanelKey) -> dict[int, Further]:
        """Return index of the target → what the further instruments gave."""
        return dict(self.records(study_id, panel, Further))

    def records(self, study_id: int, panel: PanelKey, kind: type[T]) -> Iterator[tuple[int, T]]:
        """Return number and content of a panel's launches or instruments, one at a time.

        Raises:
            StoreError: the database cannot be read, or one is damaged.
        """
        name = queries.LAUNCH if kind is Launch else queries.INSTRUMENTS
        with self._database.reading() as connection:
            for number, packet in queries.records(connection, study_id, panel, name):
                try:
                    record = from_packet(kind, packet)
                except ValueError as error:
                    raise StoreError(
                        f"{name} {number} of {panel} in study {study_id} of {self.place} cannot be read: {error}; "
                        "restore the database from a copy, or run the study again under another name."
                    ) from error
                yield number, record

    # -- what stands behind ---------------------------------------------------------------------------------------

    def _keep(self, study_id: int, panel: PanelKey, kind: str, number: int, trials: int, record: Any) -> None:
        """Write a record, or put it into a file and say so."""
        uid = self._uids.get(study_id) or self.study(study_id).uid
        entry = spool.Entry(uid, panel, kind, number, trials, to_packet(record))
        if self._joint is not None:
            self._joint.append(entry)
        try:
            if study_id in self._claims:
                with explained(self.place, "write"):
                    self._claims[study_id].renew()
            fits = self._database.write(queries.keep, study_id, entry)
        except StoreError as error:
            if self._joint is not None:
                raise
            raise self._spooled([entry], error) from error
        if not fits:
            if self._joint is not None:
                self._joint.remove(entry)
            raise StoreError(
                f"{kind} {number} of {panel} in study {study_id} is stored already, with other samples; "
                "let only one process run a study."
            )
        if self._joint is None:
            self._settle()

    def _spooled(self, entries: Sequence[spool.Entry], error: StoreError) -> StoreError:
        text, path = str(error), None
        for entry in entries:
            what = f"The {entry.kind} that was just measured"
            try:
                path = spool.spool(self.place, entry)
            except StoreError as second:
                text += f" {what} is lost: {second}."
            else:
                text += f" {what} is kept in {path}; the next command that can write takes it in."
        return StoreError(text, path)

    def _settle(self) -> None:
        """Take in what waits, where that is possible now."""
        try:
            self._take_in()
        except StoreError as error:
            self.told.append(f"a result of an earlier command still waits in a file: {error}")

    def _take_in(self) -> None:
        """Write what waits in files; what belongs to no study here is left alone."""
        taken: dict[Path, str] = {}
        for path in spool.waiting(self.place):
            try:
                entry = spool.read(path)
            except FileNotFoundError:
                continue  # another process took it in meanwhile
            except (OSError, ValueError) as error:
                self._refuse(path, f"it cannot be read ({error})")
                continue
            study_id = self._database.read(queries.study_of_uid, entry.study)
            if study_id is None:
                continue
            if self._database.write(queries.keep, study_id, entry):
                taken[path] = f"{entry.kind} {entry.number} of {entry.panel} in study {study_id}"
            else:
                self._refuse(path, "another record stands in its place")
        spool.remove(list(taken))
        if taken:
            self.told.append(f"taken in what could not be written earlier: {', '.join(taken.values())}.")

    def _refuse(self, path: Path, reason: str) -> None:
        with contextlib.suppress(OSError):
            path = spool.refuse(path)
        self.told.append(f"{path} was not taken in: {reason}.")

    def _claim(self, study: StoredStudy) -> None:
        if study.id in self._claims:
            return
        with explained(self.place, "claim a study in"):
            found = claim(self.place, self._database.engine, study.id)
        if found is None:
            raise StoreError(
                f"study {study.name!r} (number {study.id}) is being run by {study.driver or 'another process'}; "
                "wait for it or end it."
            )
        self._claims[study.id] = found

    def _release(self, study_id: int, *, for_good: bool = False) -> None:
        if study_id in self._claims:
            self._claims.pop(study_id).release(for_good=for_good)
