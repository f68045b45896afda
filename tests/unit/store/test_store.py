"""The store: what was written is read back equal, studies resume, and only one process runs a study."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from cross_backend.errors import StoreError, UsageError
from cross_backend.machine import Machine
from cross_backend.records import Launch, PanelKey
from cross_backend.store import Store, StoredStudy
from cross_backend.store.database import VARIABLE, Database
from tests.unit.store.conftest import PANEL, VERSIONS, further, launch

Begin = Callable[..., StoredStudy]
OTHERS = "pid <> pg_backend_pid() AND datname = current_database()"
CUT = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OTHERS}"
CLAIM = """
import sys
from cross_backend.machine import Machine
from cross_backend.store import Store
store = Store.open(sys.argv[1])
store.begin("quick", {}, "d" * 64, Machine.here(), {"torch": "2.13.0", "onnxruntime": "1.31.1"})
print("claimed", flush=True)
sys.stdin.read()
"""


def test_a_launch_is_read_back_equal(store: Store, begin: Begin) -> None:
    study = begin(store)
    for number in (0, 1, 2):
        store.keep_launch(study.id, PANEL, number, launch(number))
    assert store.launches(study.id, PANEL) == [launch(0), launch(1), launch(2)]
    assert store.launches(study.id, PANEL) != [launch(0), launch(1), launch(3)]
    assert len(store.launches(study.id, PANEL)) == 3


def test_instruments_are_read_back_equal(store: Store, begin: Begin) -> None:
    study = begin(store)
    store.keep_instruments(study.id, PANEL, 1, further(1))
    store.keep_instruments(study.id, PANEL, 0, further(0))
    assert store.instruments(study.id, PANEL) == {0: further(0), 1: further(1)}
    assert store.launches(study.id, PANEL) == []


def test_panels_do_not_mix(store: Store, begin: Begin) -> None:
    study = begin(store)
    keys = [PANEL, PanelKey("net", 8, 1), PanelKey("net", 1, 2), PanelKey("other", 1, 1)]
    for number, key in enumerate(keys):
        store.keep_launch(study.id, key, 0, launch(number))
    assert [store.launches(study.id, key) for key in keys] == [[launch(number)] for number in range(4)]
    assert [row.key for row in store.panels(study.id)] == keys


def test_what_is_stored_is_counted_without_reading_samples(store: Store, begin: Begin) -> None:
    study = begin(store)
    begin(store, "empty", "e")
    store.keep_launch(study.id, PANEL, 0, launch(samples=300))
    store.keep_launch(study.id, PANEL, 1, launch(samples=300))
    store.keep_instruments(study.id, PANEL, 0, further())
    store.keep_launch(study.id, PanelKey("net", 8, 1), 0, launch(samples=100))
    store.finish_panel(study.id, PANEL, {"noise_floor": 0.02})
    first, second = store.panels(study.id)
    assert (first.launches, first.trials, first.samples) == (2, 4, 2 * (3 * 300 + 3) + 6)
    assert first.finished is not None and first.note == {"noise_floor": 0.02}
    assert second.finished is None and second.note == {} and second.samples == 303
    row, empty = store.studies()
    assert (row.panels, row.launches, row.trials, row.samples) == (1, 3, 8, first.samples + second.samples)
    assert (empty.panels, empty.launches, empty.trials, empty.samples) == (0, 0, 0, 0)
    assert store.finished_panels(study.id) == {PANEL}


def test_a_study_is_read_back(store: Store, begin: Begin, machine: Machine) -> None:
    study = begin(store, spec={"targets": ["cpu", "ü"], "margin": 0.01, "none": None})
    assert store.study(study.id) == study
    assert study.machine == machine and study.machine.digest == machine.digest
    assert study.spec == {"targets": ["cpu", "ü"], "margin": 0.01, "none": None}
    assert study.versions == VERSIONS and study.finished is None
    assert study.driver is not None and study.driver.startswith("process ")


def test_an_unfinished_study_is_resumed_and_a_finished_one_is_not(where: str, begin: Begin) -> None:
    with Store.open(where) as store:
        first = begin(store)
        store.keep_launch(first.id, PANEL, 0, launch())
    with Store.open(where) as store:
        again = begin(store)
        assert again.id == first.id and again.started == first.started
        assert store.launches(again.id, PANEL) == [launch()]
        store.finish(again.id)
        assert store.study(first.id).finished is not None
        assert begin(store).id != first.id


@pytest.mark.parametrize("change", ["name", "digest", "machine", "versions"])
def test_other_surroundings_begin_a_new_study(store: Store, begin: Begin, machine: Machine, change: str) -> None:
    other = {
        "name": "slow",
        "digest": "e" * 64,
        "machine": dataclasses.replace(machine, release="another kernel"),
        "versions": {**VERSIONS, "torch": "2.14.0"},
    }[change]
    assert begin(store).id != begin(store, **{change: other}).id


def test_a_study_is_found_by_number_or_its_latest_name(store: Store, begin: Begin) -> None:
    first = begin(store)
    store.finish(first.id)
    second = begin(store)
    assert store.find(str(first.id)).id == first.id
    assert store.find("quick").id == second.id
    with pytest.raises(UsageError, match=r"unknown study 'quik'. Did you mean 'quick'\?"):
        store.find("quik")


def test_a_launch_that_is_written_twice_is_there_once(store: Store, begin: Begin) -> None:
    study = begin(store)
    store.keep_launch(study.id, PANEL, 0, launch())
    store.keep_launch(study.id, PANEL, 0, launch())
    with pytest.raises(StoreError, match="stored already, with other samples"):
        store.keep_launch(study.id, PANEL, 0, launch(1))
    assert store.launches(study.id, PANEL) == [launch()]


def test_a_second_process_is_refused_while_the_first_lives(where: str, begin: Begin) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLAIM, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "claimed\n"
        with Store.open(where) as store:
            with pytest.raises(StoreError, match=rf"'quick' \(number 1\) is being run by process {first.pid} on "):
                begin(store)
            assert begin(store, "another").id != 1  # other studies go on
            first.kill()
            first.wait()
            assert begin(store).id == 1  # a killed process leaves nothing stuck
    with Store.open(where) as store:
        assert begin(store).id == 1  # nor does one that ended


def test_two_stores_of_one_process_exclude_each_other_too(where: str, begin: Begin) -> None:
    with Store.open(where) as first, Store.open(where) as second:
        study = begin(first)
        with pytest.raises(StoreError, match="is being run by process"):
            begin(second)
        assert begin(first).id == study.id
        first.finish(study.id)
        assert begin(second).id != study.id


def test_a_cut_connection_is_made_again(new_postgres: Callable[[], str], begin: Begin) -> None:
    where = new_postgres()
    with Store.open(where) as store:
        study = begin(store)
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(CUT)
        store.keep_launch(study.id, PANEL, 0, launch())
        with Store.open(where) as other, pytest.raises(StoreError, match="is being run by"):
            begin(other)  # the claim was made again as well
        assert store.launches(study.id, PANEL) == [launch()]


def test_a_study_that_was_taken_over_while_the_connection_was_cut_is_told(
    new_postgres: Callable[[], str], begin: Begin
) -> None:
    where = new_postgres()
    with Store.open(where) as store, Store.open(where) as other:
        study = begin(store)
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        begin(other)
        with pytest.raises(StoreError, match="took study 1 over") as refused:
            store.keep_launch(study.id, PANEL, 0, launch())
        assert refused.value.spooled is not None and refused.value.spooled.exists()
        other.keep_launch(study.id, PANEL, 0, launch())  # takes in what waits, and finds it there
        assert not refused.value.spooled.exists()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://bob:p@S3cretPw@host/db",
        "postgresql://bob:p@S3/cretPw@host/db",
        "postgres://bob:@S3cretPw@host/db",
        "postgresql://S3cretPw@cretPw@host",
        "postgresql://bob@host/db?password=p@S3cretPw",
    ],
)
def test_a_password_that_is_not_escaped_is_not_shown(address: str) -> None:
    """``bob:p@S3cretPw@host`` is the host ``S3cretPw@host`` for SQLAlchemy, which shows hosts."""
    with pytest.raises(UsageError, match="%40 for @") as refused:
        Database.named(address)
    assert "cretPw" not in str(refused.value)


def test_the_place_is_what_the_caller_says_then_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv(VARIABLE, raising=False)
    if sys.platform == "linux":
        assert Database.named(None).path == tmp_path / "data" / "cross-backend" / "studies.sqlite"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "team.sqlite"))
    assert Database.named(None).path == tmp_path / "team.sqlite"
    assert Database.named(str(tmp_path / "own.sqlite")).path == tmp_path / "own.sqlite"
    monkeypatch.setenv(VARIABLE, "postgresql://me:secret@host/db")
    assert Database.named(None).path is None
    assert str(Database.named(None)) == "postgresql+psycopg://me:***@host/db"
    assert Database.named(None).digest == Database.named("postgres://me:new@host/db").digest


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("mysql://host/db", "no database is kept at mysql://; give a path for SQLite, or postgresql://"),
        ("postgresql://host:port/db", "cannot be read. Write postgresql://user:password@host:5432/name"),
        (".", "is a folder; name a file in it"),
    ],
)
def test_places_that_are_none_are_refused(where: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Store.open(where)


def test_a_database_is_made_only_where_that_is_meant(tmp_path: Path, new_postgres: Callable[[], str]) -> None:
    path = tmp_path / "deep" / "er" / "studies.sqlite"
    with pytest.raises(StoreError, match=r"there is no database at .*; 'cross-backend study run FILE' makes one"):
        Store.open(str(path), create=False)
    assert not path.parent.exists()
    with Store.open(str(path)) as store:
        assert store.studies() == []
    with Store.open(str(path), create=False) as store:
        assert store.studies() == []
    with pytest.raises(StoreError, match="there are no studies in postgresql"):
        Store.open(new_postgres(), create=False)


def test_many_processes_may_open_a_new_database_at_once(where: str) -> None:
    script = "import sys; from cross_backend.store import Store; print(Store.open(sys.argv[1]).studies())"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    answers = [process.communicate(timeout=300) for process in running]
    assert [out for out, _ in answers] == ["[]\n"] * 4, answers


def test_importing_it_is_light(run_python: Callable[..., str]) -> None:
    script = (
        "import sys; import cross_backend.store; "
        "print({'numpy', 'torch', 'sqlalchemy', 'cattrs', 'filelock', 'psycopg', 'pyarrow'} & set(sys.modules))"
    )
    assert run_python(script).strip() == "set()"


def test_records_come_one_at_a_time(store: Store, begin: Begin) -> None:
    study = begin(store)
    for number in range(3):
        store.keep_launch(study.id, PANEL, number, launch(number))
    first = next(iter(store.records(study.id, PANEL, Launch)))
    assert first == (0, launch(0))
