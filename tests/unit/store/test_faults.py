"""Faults on the real thing: full disks, read-only places, locks, damage, killed processes; nothing measured is lost."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from cross_backend.errors import StoreError
from cross_backend.records import Launch
from cross_backend.store import Store, StoredStudy
from cross_backend.store.spool import REFUSED, folders, waiting
from tests.unit.store.conftest import PANEL, VERSIONS, further, launch

Begin = Callable[..., StoredStudy]
KILLS = [5, pytest.param(30, marks=pytest.mark.slow)]
# Libraries are imported once; each line on standard input then forks a writer, which prints each number after it was
# kept. The writer's samples follow from its numbers, so the test knows what must be there.
WRITERS = """
import os, sys
import cross_backend.store.queries, cross_backend.store.claims, cross_backend.store.spool, cattrs, filelock, psycopg
import cross_backend.store.transactions, cross_backend.store.schema, sqlalchemy.dialects.postgresql.psycopg
from cross_backend.machine import Machine
from cross_backend.store import Store
from tests.unit.store.conftest import PANEL, VERSIONS, launch
launches = [launch(seed) for seed in range(8)]
for line in sys.stdin:
    writer = os.fork()
    if writer == 0:
        store = Store.open(sys.argv[1])
        study = store.begin("quick", {}, "d" * 64, Machine.here(), VERSIONS)
        number = len(store.launches(study.id, PANEL))
        print("from", number, os.getpid(), flush=True)
        while True:
            store.keep_launch(study.id, PANEL, number, launches[number % 8])
            os.write(1, f"{number}\\n".encode())  # one call: a kill does not come in between
            number += 1
    os.waitpid(writer, 0)
    print("dead", flush=True)
"""
# As root, rights are not enforced unless the process gives that power up.
PLAIN = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
READ_ONLY = """
import sys
from cross_backend.errors import StoreError
from cross_backend.machine import Machine
from cross_backend.store import Store
from tests.unit.store.conftest import PANEL, VERSIONS, launch
with Store.open(sys.argv[1]) as store:
    print(store.launches(1, PANEL) == [launch()])
    for write in (
        lambda: store.begin("quick", {}, "d" * 64, Machine.here(), VERSIONS),
        lambda: store.keep_launch(1, PANEL, 1, launch(1)),
    ):
        try:
            write()
        except StoreError as error:
            print(error.spooled, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kills", KILLS)
def test_killed_at_any_moment_no_kept_launch_is_lost(where: str, kills: int) -> None:
    moments = random.Random(0)
    kept = 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITERS, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as writers:
        assert writers.stdin is not None and writers.stdout is not None
        for _ in range(kills):
            writers.stdin.write("go\n")
            _, start, pid = writers.stdout.readline().split()
            # One more than was told may be there: the kill came between the commit and the print.
            assert kept <= int(start) <= kept + 1
            told = [int(writers.stdout.readline()) for _ in range(moments.randrange(4))]
            time.sleep(moments.uniform(0, 0.03))
            os.kill(int(pid), signal.SIGKILL)
            told += map(int, iter(writers.stdout.readline, "dead\n"))
            kept = told[-1] + 1 if told else int(start)
        writers.stdin.close()
    assert kept > kills
    with Store.open(where) as store:
        study = store.find("quick")
        found = store.launches(study.id, PANEL)
        expected = [launch(seed) for seed in range(8)]
        assert kept <= len(found) <= kept + 1
        assert all(one == expected[number % 8] for number, one in enumerate(found))
        assert len(store.studies()) == 1 and store.told == []


@contextlib.contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Callable[[str], None]]:
    """Mount a file system of a given size; give a function that mounts it anew with other options."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", folder], check=True)
    try:
        yield lambda options: subprocess.run(["mount", "-o", f"remount,{options}", folder], check=True) and None
    finally:
        subprocess.run(["umount", folder], check=True)


def fill(store: Store, study: StoredStudy) -> tuple[int, StoreError]:
    """Keep launches until one cannot be written; give its number and the error."""
    for number in range(1000):
        try:
            store.keep_launch(study.id, PANEL, number, launch(number, samples=3000))
        except StoreError as error:
            return number, error
    raise AssertionError("the disk never got full")


def can_mount() -> bool:
    """Say whether this process may mount file systems."""
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False).returncode == 0


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder of this test alone."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_on_a_full_disk_the_launch_waits_in_a_file(tmp_path: Path, elsewhere: Path, begin: Begin) -> None:
    if not can_mount():
        _fill_a_limited_file(tmp_path, elsewhere)
        return
    path = tmp_path / "small" / "studies.sqlite"
    with small_disk(path.parent, 700) as remount:
        with Store.open(str(path)) as store:
            study = begin(store)
            number, error = fill(store, study)
            assert "the disk is full" in str(error) and "free some space" in str(error)
            assert error.spooled is not None and error.spooled.is_relative_to(elsewhere)
            assert len(store.launches(study.id, PANEL)) == number > 0
        with Store.open(str(path)) as store:  # still full: what is there can be read, what waits is told
            assert store.launches(study.id, PANEL)[0] == launch(0, samples=3000)
            assert "still waits in a file" in store.told[0] and error.spooled.exists()
        remount("size=3m")
        with Store.open(str(path)) as store:
            assert store.told == [
                f"taken in what could not be written earlier: launch {number} of net, batch 1, 1 thread in study 1."
            ]
            assert store.launches(study.id, PANEL) == [launch(n, samples=3000) for n in range(number + 1)]
            assert list(elsewhere.iterdir()) == []
            store.keep_launch(begin(store).id, PANEL, number + 1, launch())
        remount("ro")
        with Store.open(str(path)) as store:
            assert len(store.launches(study.id, PANEL)) == number + 2
            with pytest.raises(StoreError, match=r"cannot open the studies in .*; make its folder readable"):
                begin(store)
        with pytest.raises(StoreError, match="--db or CROSS_BACKEND_DB"):
            Store.open(str(path.with_name("new.sqlite")))
    path.parent.rmdir()


def _fill_a_limited_file(tmp_path: Path, elsewhere: Path) -> None:
    """Do what a full disk does where nothing can be mounted: no file may grow beyond a limit."""
    script = (
        "import resource, signal, sys, tempfile; tempfile.tempdir = sys.argv[2]\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from cross_backend.machine import Machine\n"
        "from cross_backend.store import Store\n"
        "from tests.unit.store.conftest import VERSIONS\n"
        "from tests.unit.store.test_faults import fill\n"
        "store = Store.open(sys.argv[1])\n"
        "study = store.begin('quick', {}, 'd', Machine.here(), VERSIONS)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))\n"
        "number, error = fill(store, study)\n"
        "print(number, error)\n"
    )
    path = tmp_path / "studies.sqlite"
    done = _run([], script, str(path), str(elsewhere))
    number, _, error = done.partition(" ")
    assert "free some space" in error and "is kept in" in error
    with Store.open(str(path)) as store:
        assert len(store.told) == 1
        assert store.launches(1, PANEL) == [launch(n, samples=3000) for n in range(int(number) + 1)]


def _run(prefix: list[str], script: str, *arguments: str) -> str:
    done = subprocess.run(
        [*prefix, sys.executable, "-c", script, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_is_read_only_is_read_and_not_written(
    tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch, begin: Begin, what: str
) -> None:
    path = tmp_path / "shared" / "studies.sqlite"
    with Store.open(str(path)) as store:
        study = begin(store)
        store.keep_launch(study.id, PANEL, 0, launch())
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    path.chmod(0o444)
    if what == "folder":
        path.parent.chmod(0o555)
    try:
        lines = _run(PLAIN, READ_ONLY, str(path)).splitlines()
    finally:
        path.parent.chmod(0o755)
    path.chmod(0o644)
    assert lines[0] == "True" and len(lines) == 3
    assert lines[1].startswith("None cannot ") and "--db or CROSS_BACKEND_DB" in lines[1]
    spooled = Path(lines[2].partition(" ")[0])
    assert spooled.exists() and spooled.is_relative_to(path.parent if what == "file" else elsewhere)
    with Store.open(str(path)) as store:
        assert store.launches(study.id, PANEL) == [launch(), launch(1)]
    assert not spooled.exists()


@contextlib.contextmanager
def locked(where: str) -> Iterator[None]:
    """Hold the lock that writers need, as another program may."""
    if "://" in where:
        with psycopg.connect(where) as connection:
            connection.execute("LOCK TABLE cross_backend.records IN ACCESS EXCLUSIVE MODE")
            yield
        return
    connection = sqlite3.connect(where, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


def test_a_locked_database_is_waited_for_then_told(where: str, begin: Begin, elsewhere: Path) -> None:
    with Store.open(where, busy_s=0.3) as store:
        study = begin(store)
        with locked(where):
            started = time.monotonic()
            with pytest.raises(StoreError, match=r"keeps it locked .*; wait for that \w+ or end it") as refused:
                store.keep_launch(study.id, PANEL, 0, launch())
            assert 0.3 <= time.monotonic() - started < 10
            with pytest.raises(StoreError) as again:
                store.keep_instruments(study.id, PANEL, 0, further())
        waits = [refused.value.spooled, again.value.spooled]
        assert waiting(store.place) == waits
        store.keep_launch(study.id, PANEL, 1, launch(1))  # a driver that goes on takes in what waits
        assert store.launches(study.id, PANEL) == [launch(), launch(1)]
        assert store.instruments(study.id, PANEL) == {0: further()}
        assert waiting(store.place) == [] and len(store.told) == 1


def test_what_waits_is_taken_in_by_the_next_command(where: str, begin: Begin, elsewhere: Path) -> None:
    with Store.open(where, busy_s=0.1) as store:
        study = begin(store)
        store.keep_launch(study.id, PANEL, 0, launch())
        with locked(where), pytest.raises(StoreError):
            store.keep_launch(study.id, PANEL, 1, launch(1))
    with Store.open(where) as store:
        assert store.launches(study.id, PANEL) == [launch(), launch(1)]
        assert begin(store).id == study.id
    with Store.open(where) as store:
        assert store.told == []


def test_without_any_room_the_loss_is_told(where: str, begin: Begin, elsewhere: Path) -> None:
    with Store.open(where, busy_s=0.1) as store:
        study = begin(store)
        for folder in folders(store.place):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.write_text("a file stands where the folder would be")
        with locked(where), pytest.raises(StoreError, match="is lost: it could not be kept in a file either") as lost:
            store.keep_launch(study.id, PANEL, 0, launch())
        for folder in folders(store.place):
            folder.unlink()
        assert lost.value.spooled is None


@pytest.mark.parametrize("damage", ["cut", "version", "garbage", "conflict"])
def test_files_that_cannot_be_taken_in_are_told_once_and_kept(
    where: str, begin: Begin, elsewhere: Path, damage: str
) -> None:
    with Store.open(where, busy_s=0.1) as store:
        study = begin(store)
        with locked(where), pytest.raises(StoreError):
            store.keep_launch(study.id, PANEL, 0, launch())
    (path,) = waiting(store.place)
    row = json.loads(path.read_text())
    if damage == "conflict":
        aside = path.rename(elsewhere / "aside")
        with Store.open(where) as store:
            store.keep_launch(begin(store).id, PANEL, 0, launch(1))
        aside.rename(path)
    else:
        path.write_text(
            {"cut": path.read_text()[:999], "version": json.dumps({**row, "version": 2}), "garbage": "\x00"}[damage]
        )
    with Store.open(where) as store:
        assert len(store.told) == 1 and f"{path}{REFUSED} was not taken in" in store.told[0]
        assert Path(f"{path}{REFUSED}").exists()
    with Store.open(where) as store:
        assert store.told == []


def test_what_belongs_to_another_database_is_left_alone(tmp_path: Path, begin: Begin, elsewhere: Path) -> None:
    path = tmp_path / "studies.sqlite"
    with Store.open(str(path), busy_s=0.1) as store:
        study = begin(store)
        with locked(str(path)), pytest.raises(StoreError):
            store.keep_launch(study.id, PANEL, 0, launch())
    old = path.rename(tmp_path / "old.sqlite")
    with Store.open(str(path)) as store:
        assert begin(store).id == study.id and store.launches(study.id, PANEL) == [] and store.told == []
    old.replace(path)
    with Store.open(str(path)) as store:
        assert store.launches(study.id, PANEL) == [launch()]


@pytest.mark.skipif(sys.platform == "win32", reason="folders have owners of another kind there")
def test_files_that_somebody_else_planted_are_not_read(where: str, begin: Begin, elsewhere: Path) -> None:
    with Store.open(where, busy_s=0.1) as store:
        study = begin(store)
        with locked(where), pytest.raises(StoreError):
            store.keep_launch(study.id, PANEL, 0, launch())
        planted = folders(store.place)[1]
        folders(store.place)[0].rename(elsewhere / "theirs")
        planted.symlink_to(elsewhere / "theirs")
        assert waiting(store.place) == []
        store.keep_launch(study.id, PANEL, 1, launch(1))
        assert store.launches(study.id, PANEL) == [launch(1)]


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
