"""Database: where studies lie, how SQLite and PostgreSQL are opened, and what their errors mean to a reader."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sqlite3
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cross_backend.errors import StoreError, UnavailableError, UsageError, one_line

if TYPE_CHECKING:
    import psycopg
    from sqlalchemy import URL, Connection, Engine

VARIABLE = "CROSS_BACKEND_DB"
"""Environment variable that says where studies lie: a path, or ``postgresql://…``."""
BUSY_S = 30.0
"""How long to wait for a lock that another process holds, seconds."""
CONNECT_S = 10
"""How long to wait for a server, seconds."""
SCHEMA = "cross_backend"
"""PostgreSQL: schema of all tables, so that a team may share a database with other things."""
APPLICATION_ID = 0x78_62_64_62
"""In the header of our SQLite files (``xbdb``), so that other files are told from ours."""

ELSEWHERE = f"name another place with --db or {VARIABLE}"
MEANINGS = {
    "SQLITE_FULL": ("the disk is full", "free some space"),
    "SQLITE_READONLY": ("it cannot be written", f"give yourself the right to write, or {ELSEWHERE}"),
    "SQLITE_PERM": ("it cannot be written", f"give yourself the right to write, or {ELSEWHERE}"),
    "SQLITE_AUTH": ("it may not be read", f"give yourself the right to read it, or {ELSEWHERE}"),
    "SQLITE_CANTOPEN": ("it cannot be opened", f"make its folder readable and writable, or {ELSEWHERE}"),
    "SQLITE_BUSY": ("another process keeps it locked", "wait for that process or end it"),
    "SQLITE_LOCKED": ("another process keeps it locked", "wait for that process or end it"),
    "SQLITE_CORRUPT": ("it is damaged", "save what is readable with 'sqlite3 FILE .recover', and move it away"),
    "SQLITE_NOTADB": ("it is no SQLite database, or damaged", f"move it away, or {ELSEWHERE}"),
    "SQLITE_IOERR": ("its disk fails, or has no space", f"free some space or {ELSEWHERE}; WAL needs a local disk"),
    "53100": ("the server's disk is full", "free some space on it"),
    "53300": ("the server takes no more connections", "close some"),
    "25006": ("the server takes no writes", "connect to its primary, with a role that may write"),
    "42501": ("this role lacks a right", f"let its owner run: CREATE SCHEMA {SCHEMA} AUTHORIZATION your_role"),
    "55P03": ("another session keeps it locked", "wait for that session or end it"),
    "40P01": ("another session keeps it locked", "wait for that session or end it"),
}
"""SQLite's error name (or its beginning), PostgreSQL's SQLSTATE → what happened, and the remedy."""
NOT_OURS = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What reading rows that we did not write may raise: SQLite's columns hold values of any type."""


@dataclass(frozen=True)
class Database:
    """Where studies lie."""

    path: Path | None
    """SQLite's file."""
    url: str = ""
    """PostgreSQL's address, with its password."""

    def __str__(self) -> str:
        return str(self.path) if self.path else self._shown.render_as_string(hide_password=True)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that tell this database from others; the password is no part of them."""
        text = str(self.path) if self.path else self._shown.set(password=None).render_as_string()
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def _shown(self) -> URL:
        """The address; a password that is given as a parameter is not in it."""
        from sqlalchemy import make_url

        return make_url(self.url).difference_update_query(["password"])

    @classmethod
    def named(cls, where: str | None) -> Database:
        """Read what a caller or the environment says; this user's data folder where neither says anything.

        Raises:
            UsageError: neither a path nor ``postgresql://…``.
        """
        where = where if where is not None else os.environ.get(VARIABLE)
        if not where:
            import platformdirs

            return cls(Path(platformdirs.user_data_dir("cross-backend", appauthor=False), "studies.sqlite"))
        kind, separator, rest = where.partition("://")
        if not separator:
            path = Path(where).expanduser().resolve()
            if path.is_dir():
                raise UsageError(f"{where} is a folder; name a file in it, as {Path(where) / 'studies.sqlite'}.")
            if path.exists() and not path.is_file():
                raise UsageError(f"{where} is a pipe, a device or a socket; name a file.")
            return cls(path)
        if kind not in {"postgresql", "postgres", "postgresql+psycopg"}:
            raise UsageError(
                f"no database is kept at {kind}://; give a path for SQLite, or postgresql://user@host/name."
            )
        from sqlalchemy.exc import ArgumentError

        place = cls(None, f"postgresql+psycopg://{rest}")
        try:
            if rest.count("@") > 1:  # which part of it is the password is then anybody's guess
                raise ValueError("two @")
            str(place)
        except (ArgumentError, ValueError) as error:
            raise UsageError(
                "the database's address cannot be read. Write postgresql://user:password@host:5432/name, with a "
                "percent-encoded password (%40 for @, %2F for /)."
            ) from error
        return place


class Mode(StrEnum):
    """How SQLite opens a file; PostgreSQL's roles say for themselves what they may do."""

    WRITING = "rwc"
    READING = "ro"
    """Needs write access to the folder, or another process that has the file open, while there is a -wal file."""
    FROZEN = "ro&immutable=1"
    """As if nobody could write it, which needs no other file."""


def modes(place: Database) -> tuple[Mode, ...]:
    """Return how to try to open a database, best first."""
    if place.path is None or not place.path.exists():
        return (Mode.WRITING,)
    wal = place.path.with_name(place.path.name + "-wal")
    waiting = wal.exists() and wal.stat().st_size > 0
    return (Mode.WRITING, Mode.READING) if waiting else (Mode.WRITING, Mode.READING, Mode.FROZEN)


def engine_of(place: Database, mode: Mode, busy_s: float) -> Engine:
    """Return SQLAlchemy's engine; nothing is opened yet."""
    return _sqlite(place.path, mode, busy_s) if place.path else _postgres(place.url, busy_s)


def _sqlite(path: Path, mode: Mode, busy_s: float) -> Engine:
    from sqlalchemy import QueuePool, create_engine, event

    name = f"file:{quote(str(path))}?mode={mode}"

    def connect() -> sqlite3.Connection:
        if mode is Mode.WRITING:
            _share_rights(path)
        # The driver's own idea of when a transaction begins is switched off: ours do, below.
        return sqlite3.connect(name, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False)

    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")  # what a stranger's schema calls does nothing but compute
        connection.execute("PRAGMA cell_size_check = ON")
        if mode is Mode.WRITING:
            # Commits are synchronised to the disk: NORMAL would survive a killed process, but not a power cut.
            # A launch takes seconds to minutes, a synchronisation milliseconds.
            if _is_ours_or_new(connection):
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")  # macOS: until the disk itself says so

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that begins by reading cannot wait for the lock when it comes to write.
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


def _share_rights(path: Path) -> None:
    """Make the files beside a database writable where it is.

    SQLite makes them with the rights that the database has then; one that was opened while it was read-only would stay
    read-only when its owner changes that.
    """
    for beside in (path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm")):
        with contextlib.suppress(OSError):
            found = beside.lstat()
            plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1  # nobody's link to another file of ours
            if plain and os.access(path, os.W_OK) and not os.access(beside, os.W_OK):
                beside.chmod(stat.S_IMODE(path.stat().st_mode))


def _is_ours_or_new(connection: sqlite3.Connection) -> bool:
    """Whether a file may be changed before its tables were looked at."""
    (application,), (pages,) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "page_count")
    )
    return bool(application == APPLICATION_ID or pages == 0)


def _postgres(url: str, busy_s: float) -> Engine:
    from sqlalchemy import create_engine, event

    if importlib.util.find_spec("psycopg") is None:
        raise UnavailableError("studies in PostgreSQL need psycopg", "run: pip install 'cross-backend[postgres]'")
    engine = create_engine(
        url,
        pool_pre_ping=True,  # a panel may take hours, and connections that rest are cut
        execution_options={"schema_translate_map": {None: SCHEMA}},
        connect_args={"connect_timeout": CONNECT_S, "keepalives_idle": 60, "application_name": "cross-backend"},
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: psycopg.Connection[Any], _: object) -> None:
        connection.execute(f"SET lock_timeout = {int(busy_s * 1000)}")
        connection.commit()

    return engine


@contextlib.contextmanager
def explained(place: Database, doing: str) -> Iterator[None]:
    """Turn what a database raises into one line that says what to do.

    Args:
        place: what is used.
        doing: ``cannot`` and this: ``open``, ``read``, ``write``.

    Raises:
        StoreError: instead of the driver's errors.
    """
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
        raise StoreError(f"cannot {doing} the studies in {place}: {meaning(cause)}.") from error
    except NOT_OURS as error:  # what the tables hold is not what was written
        raise StoreError(
            f"cannot {doing} the studies in {place}: {one_line(error)}; restore them from a copy."
        ) from error


def meaning(error: BaseException) -> str:
    """Return what a driver's error means, and the remedy."""
    said = one_line(error).removeprefix(f"{type(error).__name__}: ")
    if isinstance(error, sqlite3.Error) and said.startswith("Could not decode"):  # and then the text itself
        return "; ".join(MEANINGS["SQLITE_CORRUPT"])
    name = str(getattr(error, "sqlite_errorname", None) or getattr(error, "sqlstate", None) or "")
    for key in sorted(MEANINGS, key=len, reverse=True):
        if name.startswith(key):
            what, remedy = MEANINGS[key]
            return f"{what} ({said}); {remedy}"
    if isinstance(error, OSError):
        return f"{said}; {ELSEWHERE}"
    if type(error).__module__.startswith("psycopg") and type(error).__name__ == "OperationalError":
        return f"{said}; is the server running, and are host, port, user, password and name right?"
    return said
