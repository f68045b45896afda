"""Schema: the tables, their version, and the steps from older versions; imports SQLAlchemy, so is imported late.

Why a list of steps and a number instead of Alembic: the history is one line, is never branched or downgraded, and must
run from inside a wheel on every opening. A number shows at once that a file is of a newer version, where Alembic would
first load its scripts from the package's folder. A step that must rebuild a table of SQLite can use Alembic's
operations by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    inspect,
    select,
    text,
)

from cross_backend.errors import StoreError
from cross_backend.machine import Machine
from cross_backend.store.database import APPLICATION_ID, SCHEMA
from cross_backend.store.rows import converter, from_json

Step = Callable[[Connection], None]

STEPS: tuple[Step, ...] = ()
"""Step k changes a database of version k + 1 to version k + 2. History of versions: 1, the first.

A step is never changed once it was released, and speaks SQL or tables of its own: the tables below are the newest."""

MIGRATING = 0x78_62_6D_67
"""Key of PostgreSQL's advisory lock while the schema is changed."""


class Json(TypeDecorator[Any]):
    """A text that holds a value of some type as JSON; what was read is compared with the type."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def process_bind_param(self, value: Any, dialect: object) -> str | None:  # noqa: ARG002  SQLAlchemy's signature
        """Return a value's text."""
        return None if value is None else json.dumps(converter().unstructure(value), allow_nan=False)

    def process_result_value(self, value: str | None, dialect: object) -> Any:  # noqa: ARG002  SQLAlchemy's signature
        """Return a text's value."""
        return None if value is None else from_json(self.kind, value)


METADATA = MetaData()

VERSIONS = Table("schema_version", METADATA, Column("version", Integer, primary_key=True))
"""One row."""

STUDIES = Table(
    "studies",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("uid", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False, index=True),
    Column("digest", Text, nullable=False, index=True),
    Column("machine_digest", Text, nullable=False),
    Column("machine", Json(Machine), nullable=False),
    Column("versions", Json(dict[str, str]), nullable=False),
    Column("spec", Json(dict[str, Any]), nullable=False),
    Column("started", Text, nullable=False),
    Column("finished", Text),
    Column("driver", Text),
    sqlite_autoincrement=True,  # the number of a deleted study is not given again
)
"""What was asked for, where."""

PANELS = Table(
    "panels",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("study_id", ForeignKey("studies.id", ondelete="CASCADE"), nullable=False),
    Column("workload", Text, nullable=False),
    Column("batch", Integer, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("finished", Text),
    Column("note", Json(dict[str, Any])),
    UniqueConstraint("study_id", "workload", "batch", "threads"),
)

RECORDS = Table(
    "records",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("panel_id", ForeignKey("panels.id", ondelete="CASCADE"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("content", Text, nullable=False),
    Column("trials", Integer, nullable=False),
    Column("samples", BigInteger, nullable=False),
    UniqueConstraint("panel_id", "kind", "number"),
)
"""Of kind ``launch``, numbered in time, or ``instruments``, numbered by target; content is JSON."""

SAMPLES = Table(
    "samples",
    METADATA,
    Column("record_id", ForeignKey("records.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("metric", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("launches", Json(tuple[int, ...]), nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("lengths", LargeBinary, nullable=False),
    Column("encoding", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
"""Measurements of a record by their position in its content; ``store/samples.py`` describes the bytes."""


def version_of(connection: Connection) -> int | None:
    """Return the version of a database's schema; None where it has none of our tables.

    Raises:
        StoreError: a SQLite file of something else, or one with rules of somebody else's.
    """
    inspector, schema = inspect(connection), schema_of(connection)
    if schema is None:
        _check_is_ours(connection)
    if inspector.has_table(VERSIONS.name, schema=schema):
        return int(connection.execute(select(VERSIONS.c.version)).scalar_one())
    return None


def _check_is_ours(connection: Connection) -> None:
    """Refuse a SQLite file of something else, and views and triggers: they would compute whatever their author wants.

    Views of other names are the user's own, and never asked.

    Raises:
        StoreError: as it says.
    """
    rows = connection.execute(text("SELECT type, name, sql FROM sqlite_master")).all()
    if rows and connection.execute(text("PRAGMA application_id")).scalar() != APPLICATION_ID:
        raise StoreError("the file is a SQLite database of something else; name another place with --db.")
    for kind, name, made in rows:
        virtual = str(made).lstrip().upper().startswith("CREATE VIRTUAL")
        if kind == "trigger" or (str(name).lower() in METADATA.tables and (kind != "table" or virtual)):
            raise StoreError(
                f"the database holds the {'virtual table' if virtual else kind} {name!r}, which cross-backend does not "
                "make; drop it if it is yours, or name another place with --db."
            )


def schema_of(connection: Connection) -> str | None:
    """Return the name of the schema that our tables are in; None for SQLite's only one."""
    return SCHEMA if connection.dialect.name == "postgresql" else None


def is_newest(version: int | None, steps: Sequence[Step] = STEPS) -> bool:
    """Whether a database can be used as it is.

    Raises:
        StoreError: of a newer version than this one knows.
    """
    newest = 1 + len(steps)
    if version is not None and version > newest:
        raise StoreError(
            f"the database's schema has version {version}, this program knows {newest}; "
            "run: pip install --upgrade cross-backend"
        )
    return version == newest


def migrate(connection: Connection, steps: Sequence[Step] = STEPS) -> None:
    """Create the tables or bring them to the newest version, all or nothing; the caller's transaction writes."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATING})
        if not inspect(connection).has_schema(SCHEMA):
            connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    version = version_of(connection)
    if is_newest(version, steps):
        return  # another process was faster
    if version is None:
        if connection.dialect.name == "sqlite":
            connection.execute(text(f"PRAGMA application_id = {APPLICATION_ID}"))
        METADATA.create_all(connection)
        connection.execute(VERSIONS.insert().values(version=1 + len(steps)))
        return
    for step in steps[version - 1 :]:
        step(connection)
    connection.execute(VERSIONS.update().values(version=1 + len(steps)))
