"""What a locked database does not take waits in files, and is taken in, left alone or refused later."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pytest

from cross_backend.errors import StoreError
from cross_backend.store import Store
from cross_backend.store.spool import REFUSED, folders, waiting
from tests.unit.store.conftest import PANEL, further, launch
from tests.unit.store.faults import Begin, locked


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


def test_what_is_written_together_is_there_whole_or_waits_whole(where: str, begin: Begin, elsewhere: Path) -> None:
    with Store.open(where, busy_s=0.1) as store:
        study = begin(store)
        with store.together():
            store.keep_launch(study.id, PANEL, 0, launch())
            store.keep_instruments(study.id, PANEL, 0, further())
            store.finish_panel(study.id, PANEL)
        assert store.finished_panels(study.id) == {PANEL}

        def clash() -> None:
            with store.together():
                store.keep_launch(study.id, PANEL, 1, launch(1))
                store.keep_launch(study.id, PANEL, 0, launch(7))

        with pytest.raises(StoreError, match="stored already, with other samples"):
            clash()
        assert [len(waiting(store.place)), store.launches(study.id, PANEL)] == [1, [launch()]], "all of it, or nothing"
        with locked(where), pytest.raises(StoreError, match="is kept in"), store.together():
            store.keep_launch(study.id, PANEL, 2, launch(2))
    with Store.open(where) as store:
        assert store.launches(study.id, PANEL) == [launch(), launch(1), launch(2)] and waiting(store.place) == []


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
