"""Databases of strangers: one clear line each, whatever stands in them; nothing in them runs, and none is changed."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.errors import CrossBackendError, StoreError, UsageError
from cross_backend.store import Store, StoredStudy
from cross_backend.store.samples import pack, unpack
from cross_backend.store.spool import SUFFIX
from cross_backend.study.driver import read
from tests.unit.store.conftest import PANEL, further, launch

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS id, x AS version FROM n"


@pytest.fixture
def path(tmp_path: Path, begin: Callable[..., StoredStudy]) -> Path:
    """A sound database with one study."""
    path = tmp_path / "studies.sqlite"
    spec = {
        "schema": 1, "name": "quick", "workloads": [{"model": "linear_regression", "name": "net", "weights": None,
        "content": None, "batch_sizes": []}], "targets": ["cpu"], "batch_sizes": [1], "precisions": [], "threads": [1],
        "settings": {}, "output": {},
    }  # fmt: skip
    with Store.open(str(path)) as store:
        study = begin(store, spec=spec)
        store.keep_launch(study.id, PANEL, 0, launch())
        store.keep_instruments(study.id, PANEL, 0, further())
        store.finish_panel(study.id, PANEL)
    return path


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def complaint(path: Path) -> str:
    """Read all that commands read, and give what is said; None of it takes long."""
    started = time.monotonic()
    try:
        with Store.open(str(path), create=False) as store:
            for row in store.studies():
                store.find(row.name)
                for panel in store.panels(row.id):
                    store.launches(row.id, panel.key)
                    store.instruments(row.id, panel.key)
                read(store, row.id)
    except CrossBackendError as error:
        said = str(error)
        assert said.isprintable() and len(said) < 1000, said
        return said
    finally:
        assert time.monotonic() - started < 20
    return ""


def test_a_sound_one_is_read(path: Path) -> None:
    assert complaint(path) == ""


OTHERS = {
    "somebody's": ["CREATE TABLE people (name TEXT)"],
    "one with a version": ["CREATE TABLE schema_version (version INTEGER)", "INSERT INTO schema_version VALUES (1)"],
    "one with no version": ["CREATE TABLE schema_version (version TEXT)", "INSERT INTO schema_version VALUES (NULL)"],
    "only a view": [f"CREATE VIEW schema_version AS {ENDLESS}"],
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("create", [False, True])
def test_other_databases_are_told_from_ours_and_left_alone(what: str, create: bool, tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    change(path, *OTHERS[what])
    before = path.read_bytes()
    with pytest.raises(StoreError, match="a SQLite database of something else; name another place with --db"):
        Store.open(str(path), create=create)
    assert path.read_bytes() == before and [one.name for one in tmp_path.iterdir()] == [path.name]


RULES = {
    "a trigger": (["CREATE TRIGGER t AFTER INSERT ON studies BEGIN DELETE FROM records; END"], "trigger 't'"),
    "a view": (["DROP TABLE studies", f"CREATE VIEW studies AS {ENDLESS}"], "view 'studies'"),
    "a view in capitals": (["DROP TABLE panels", f"CREATE VIEW PANELS AS {ENDLESS}"], "view 'PANELS'"),
    "a virtual table": (
        ["DROP TABLE records", "CREATE VIRTUAL TABLE records USING fts5(id)"],
        "virtual table 'records'",
    ),
    "a view for the version": (
        ["DROP TABLE schema_version", f"CREATE VIEW schema_version AS {ENDLESS}"],
        "schema_version",
    ),
}


@pytest.mark.parametrize("what", RULES)
def test_rules_of_others_are_refused(what: str, path: Path) -> None:
    statements, said = RULES[what]
    change(path, *statements)
    assert said in complaint(path) and "which cross-backend does not make" in complaint(path)


def test_views_of_the_users_own_are_no_harm(path: Path) -> None:
    change(path, f"CREATE VIEW mine AS {ENDLESS}")
    assert complaint(path) == ""


def test_a_newer_one_says_so(path: Path) -> None:
    change(path, "UPDATE schema_version SET version = 99")
    assert "version 99, this program knows 1; run: pip install --upgrade cross-backend" in complaint(path)


TYPES = {
    "studies.name": b"\xff",
    "studies.started": b"x",
    "studies.uid": b"x",
    "studies.spec": "[]",
    "studies.versions": "[]",
    "panels.workload": b"x",
    "panels.note": "[]",
    "panels.batch": "many",
    "records.content": "[" * 100_000,
    "samples.launches": "null",
    "samples.metric": b"x",
    "samples.unit": b"x",
    "samples.data": "x",
}


@pytest.mark.parametrize("column", TYPES)
def test_values_of_another_type_are_damage(column: str, path: Path) -> None:
    table, _, name = column.partition(".")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {name} = ?", (TYPES[column],))
    assert "restore" in complaint(path)


def test_samples_that_unpack_to_gigabytes_are_refused(path: Path) -> None:
    packed = pack(launch().results[0].latency)  # type: ignore[arg-type]
    bomb = zlib.compress(bytes(50_000_000))
    for changed in (
        replace(packed, data=bomb),
        replace(packed, lengths=bomb),
        replace(packed, data=bomb, count=1 << 40),
        replace(packed, data=packed.data[:-10]),
    ):
        with pytest.raises(ValueError, match="samples"):
            unpack(changed)
    assert unpack(packed) == launch().results[0].latency


def test_a_pipe_among_the_records_that_wait_is_not_opened(path: Path) -> None:
    folder = path.with_name(f"{path.name}.spooled")
    folder.mkdir()
    os.mkfifo(folder / f"x{SUFFIX}")
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(complaint(path)), daemon=True)
    thread.start()
    thread.join(30)
    assert said == [""]


def test_a_pipe_is_no_database(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "studies.sqlite")
    with pytest.raises(UsageError, match="is a pipe, a device or a socket; name a file"):
        Store.open(str(tmp_path / "studies.sqlite"))
