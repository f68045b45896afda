"""Transactions: an open database, for reading always and for writing where that is possible."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar

from cross_backend.errors import StoreError
from cross_backend.store import schema
from cross_backend.store.database import Database, Mode, engine_of, explained, modes

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

P = ParamSpec("P")
T = TypeVar("T")


class Transactions:
    """One database; each transaction takes a connection from a pool and returns it."""

    def __init__(self, place: Database, engine: Engine, refusal: StoreError | None) -> None:
        self.place = place
        self.engine = engine
        self._writer = engine.execution_options(writing=True)
        self._refusal = refusal
        """Why nothing can be written."""
        self._joint: Connection | None = None
        """Of the transaction that everything is part of that is written now."""

    @classmethod
    def open(cls, place: Database, *, create: bool, busy_s: float) -> Self:
        """Open a database and bring its tables to this version; where it cannot be written, open it for reading.

        Args:
            place: where.
            create: whether to make a database where there is none.
            busy_s: how long to wait for a lock that another process holds, seconds.

        Raises:
            StoreError: it cannot be read either, is of a newer version, or absent and not to be made.
        """
        if place.path and not create and not place.path.exists():
            raise StoreError(f"there is no database at {place}; 'cross-backend study run FILE' makes one.")
        refusal: StoreError | None = None
        for mode in modes(place):
            opened = cls(place, engine_of(place, mode, busy_s), refusal)
            try:
                opened._prepare(create=create and mode is Mode.WRITING)
            except BaseException as error:
                opened.close()
                if not isinstance(error, StoreError):
                    raise
                refusal = refusal or error
            else:
                return opened
        assert refusal is not None
        raise refusal

    def _prepare(self, *, create: bool) -> None:
        """Create what is missing and bring the tables to this version."""
        with explained(self.place, "open"):
            if self.place.path and create:
                self.place.path.parent.mkdir(parents=True, exist_ok=True)
            with self.engine.begin() as connection:
                version = schema.version_of(connection)
        if schema.is_newest(version):
            return
        if version is None and not create:
            raise StoreError(f"there are no studies in {self.place}; 'cross-backend study run FILE' makes some.")
        with self.writing() as connection:
            schema.migrate(connection)

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """Return a connection that sees one state of the database.

        Raises:
            StoreError: it cannot be read.
        """
        with explained(self.place, "read"), self.engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """Return a connection whose changes are all kept at the end, or none.

        Raises:
            StoreError: it cannot be written.
        """
        if self._refusal is not None:
            raise self._refusal
        if self._joint is not None:
            with explained(self.place, "write"):
                yield self._joint
            return
        with explained(self.place, "write"), self._writer.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Make one transaction of all that this thread writes inside.

        Raises:
            StoreError: it cannot be written; then nothing of it is.
        """
        with self.writing() as connection:
            self._joint = connection
            try:
                yield
            finally:
                self._joint = None

    def read(self, ask: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Ask one thing of a connection."""
        with self.reading() as connection:
            return ask(connection, *args, **named)

    def write(self, do: Callable[Concatenate[Connection, P], T], *args: P.args, **named: P.kwargs) -> T:
        """Do one thing to a connection, whole or not at all."""
        with self.writing() as connection:
            return do(connection, *args, **named)
