"""Faults on the real thing: damage, an absent server, a missing right, a missing driver; each is one clear error."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from cross_backend.errors import StoreError
from cross_backend.records import Launch
from cross_backend.store import Store
from tests.unit.store.conftest import PANEL, VERSIONS, launch
from tests.unit.store.faults import Begin


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "studies.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match=r"it is no SQLite database, or damaged .*; move it away"):
        Store.open(str(path))


def test_a_damaged_database_is_told_and_never_gives_wrong_samples(tmp_path: Path, begin: Begin) -> None:
    path = tmp_path / "studies.sqlite"
    with Store.open(str(path)) as store:
        study = begin(store)
        for number in range(5):
            store.keep_launch(study.id, PANEL, number, launch(number))
    whole = path.read_bytes()
    moments = random.Random(0)
    told = []
    for _ in range(40):
        damaged = bytearray(whole)
        at = moments.randrange(100, len(whole))
        damaged[at : at + 40] = moments.randbytes(len(damaged[at : at + 40]))
        path.write_bytes(damaged)
        try:
            with Store.open(str(path)) as store:
                found = [record for _, record in store.records(study.id, PANEL, Launch)]
        except StoreError as error:
            told.append(str(error))
            continue
        measured = [[r.latency for r in one.results] for one in found]
        assert measured == [[r.latency for r in launch(number).results] for number in range(len(found))]
    assert len(told) > 10
    unclear = [
        text for text in told if len(text.splitlines()) != 1 or ("restore" not in text and "recover" not in text)
    ]
    assert unclear == []


def test_an_unreachable_server_is_told_without_the_password() -> None:
    with pytest.raises(StoreError, match=r"postgresql.*me:\*\*\*@127.0.0.1:1/x.*is the server running") as refused:
        Store.open("postgresql://me:secret@127.0.0.1:1/x")
    assert "secret" not in str(refused.value)


def test_a_role_that_may_only_read_reads(new_postgres: Callable[[], str], begin: Begin) -> None:
    where = new_postgres()
    with Store.open(where) as store:
        study = begin(store)
        store.keep_launch(study.id, PANEL, 0, launch())
    with psycopg.connect(where, autocommit=True) as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'viewer'").fetchone():
            connection.execute("CREATE ROLE viewer LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA cross_backend TO viewer")
        connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA cross_backend TO viewer")
    with Store.open(where.replace("tester@", "viewer@")) as store:
        assert store.launches(study.id, PANEL) == [launch()]
        with pytest.raises(StoreError, match="this role lacks a right"):
            begin(store, "another", versions=VERSIONS)


def test_a_missing_driver_names_what_installs_it(run_python: Callable[..., str]) -> None:
    script = (
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda name: None if name in ('psycopg', 'pyarrow') else find(name)\n"
        "from cross_backend.errors import UnavailableError\n"
        "from cross_backend.store import Store\n"
        "try: Store.open('postgresql://host/x')\n"
        "except UnavailableError as error: print(error)"
    )
    assert run_python(script).strip().endswith("run: pip install 'cross-backend[postgres]'")
