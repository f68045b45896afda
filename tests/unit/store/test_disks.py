"""Full disks and read-only places: what cannot be written waits in a file, what is there can be read."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cross_backend.errors import StoreError
from cross_backend.store import Store, StoredStudy
from tests.unit.store.conftest import PANEL, launch
from tests.unit.store.faults import Begin

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


@contextlib.contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[Callable[[str], None]]:
    """Mount a file system of a given size; give a function that mounts it again with other options."""
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
        "import resource, signal, sys, tempfile; tempfile.tempdir = sys.argv[2]; sys.dont_write_bytecode = True\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from cross_backend.machine import Machine\n"
        "from cross_backend.store import Store\n"
        "from tests.unit.store.conftest import VERSIONS\n"
        "from tests.unit.store.test_disks import fill\n"
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
