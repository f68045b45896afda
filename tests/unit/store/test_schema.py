"""The schema: old files are read and brought to this version whole or not at all; newer ones are refused."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, text

from cross_backend.errors import StoreError
from cross_backend.store import Store
from cross_backend.store.database import Database
from cross_backend.store.schema import METADATA, STEPS, is_newest, migrate, schema_of, version_of
from cross_backend.store.transactions import Transactions
from tests.unit.store import golden

GOLDEN = Path(__file__).parents[2] / "data" / "studies_v1.sqlite"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """Copy a database of the first version."""
    return Path(shutil.copy(GOLDEN, tmp_path / "old.sqlite"))


@pytest.fixture
def database(where: str) -> Iterator[Transactions]:
    """Give an open database without studies."""
    opened = Transactions.open(Database.named(where), create=True, busy_s=5)
    yield opened
    opened.close()


def test_the_first_version_is_read(first: Path) -> None:
    with Store.open(str(first)) as store:
        study = store.study(store.find("golden").id)
        assert (study.machine, study.spec, study.versions) == (golden.MACHINE, golden.SPEC, golden.VERSIONS)
        assert study.finished is not None
        (panel,) = store.panels(study.id)
        assert panel.key == golden.PANEL and panel.note == golden.NOTE and panel.finished
        assert store.launches(study.id, panel.key) == [golden.LAUNCH]
        assert store.instruments(study.id, panel.key) == {0: golden.FURTHER}


def test_an_old_file_gets_the_tables_of_a_new_one(first: Path, tmp_path: Path) -> None:
    Store.open(str(first)).close()
    Store.open(str(tmp_path / "new.sqlite")).close()
    assert _tables(first) == _tables(tmp_path / "new.sqlite")


def _tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(path)
    tables = {name: connection.execute(f"PRAGMA table_info({name})").fetchall() for name in METADATA.tables}
    tables["version"] = connection.execute("SELECT version FROM schema_version").fetchall()
    connection.close()
    return tables


def _add_column(connection: Connection) -> None:
    schema = schema_of(connection)
    connection.execute(text(f"ALTER TABLE {schema + '.' if schema else ''}studies ADD COLUMN remark TEXT"))


def _fail(connection: Connection) -> None:
    connection.execute(text("UPDATE no_such_table SET x = 1"))


def _columns(connection: Connection) -> set[str]:
    return {row["name"] for row in inspect(connection).get_columns("studies", schema=schema_of(connection))}


def test_each_step_is_done_once_and_keeps_what_is_there(first: Path, database: Transactions) -> None:
    steps = (*STEPS, _add_column)
    for _ in range(2):  # the second finds nothing to do
        database.write(migrate, steps)
    assert database.read(version_of) == len(steps) + 1
    assert "remark" in database.read(_columns)
    old = Transactions.open(Database(first), create=False, busy_s=5)
    old.write(migrate, steps)
    assert "remark" in old.read(_columns)
    assert old.read(lambda c: c.execute(text("SELECT name, remark FROM studies")).all()) == [("golden", None)]
    old.close()


def test_a_step_that_fails_leaves_the_database_as_it_was(database: Transactions) -> None:
    with pytest.raises(StoreError, match="no_such_table"):
        database.write(migrate, (*STEPS, _add_column, _fail))
    assert database.read(version_of) == len(STEPS) + 1
    assert "remark" not in database.read(_columns)


def test_a_newer_version_is_refused(where: str) -> None:
    opened = Transactions.open(Database.named(where), create=True, busy_s=5)
    opened.write(migrate, (*STEPS, _add_column))
    opened.close()
    with pytest.raises(
        StoreError, match=r"has version 2, this program knows 1; run: pip install --upgrade cross-backend"
    ):
        Store.open(where)


def test_versions_are_told_apart() -> None:
    assert is_newest(1, ()) and not is_newest(None, ()) and not is_newest(1, (_add_column,))


def test_a_database_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE notes (text TEXT)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is a SQLite database of something else; name another place with --db"):
        Store.open(str(path))
    assert path.read_bytes() == before


def test_a_team_may_keep_other_tables_beside(new_postgres: Callable[[], str]) -> None:
    import psycopg

    where = new_postgres()
    with psycopg.connect(where, autocommit=True) as connection:
        connection.execute("CREATE TABLE studies (something TEXT)")
    with Store.open(where) as store:
        assert store.studies() == []
