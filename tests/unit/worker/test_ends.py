"""Ends of workers: they die alone, say how, and never outlive their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from cross_backend.bench.worker_bench import Run
from cross_backend.errors import (
    WorkerError,
    WorkerTimeoutError,
)
from cross_backend.program.captures import Capture
from cross_backend.worker.process import Worker
from tests.unit.worker.patience import PATIENCE_S, fresh
from tests.zygote import Forked


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def busy_pids(tmp_path: Path) -> list[int]:
    """Wait until the hanging model runs; give the worker's process and the one that it started."""
    path = tmp_path / "pids"
    assert wait_until(lambda: path.is_file() and len(path.read_text().split()) == 2)
    return [int(pid) for pid in path.read_text().split()]


def test_a_killed_worker_says_by_what(worker: Worker, tmp_path: Path, model: Callable[[str], Capture]) -> None:
    def kill() -> None:
        os.kill(busy_pids(tmp_path)[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(WorkerError, match="was killed by SIGKILL") as caught:
        worker.ask(model("hang"), PATIENCE_S)
    thread.join()
    assert type(caught.value) is WorkerError
    assert str(worker.log) in str(caught.value)
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        worker.ask(Run(None), PATIENCE_S)
    assert not worker.alive


@fresh
def test_a_worker_killed_between_requests_says_by_what(worker: Worker) -> None:
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match="was killed by SIGKILL"):
        worker.ask(Run(None), PATIENCE_S)


@pytest.mark.parametrize(
    ("name", "message"), [("abort", "was killed by SIGABRT.*the last words"), ("leave", "exited with status 7")]
)
def test_a_crash_says_how(worker: Worker, model: Callable[[str], Capture], name: str, message: str) -> None:
    with pytest.raises(WorkerError, match=message) as caught:
        worker.ask(model(name), PATIENCE_S)
    assert "\n" not in str(caught.value)


def test_a_worker_that_hangs_is_stopped_with_all_that_it_started(
    worker: Worker, tmp_path: Path, model: Callable[[str], Capture]
) -> None:
    errors: list[BaseException] = []
    worker.ask(model("chatty"), PATIENCE_S)  # what takes long is imported now

    def ask() -> None:
        try:
            worker.ask(model("hang"), 2.0)
        except WorkerTimeoutError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    pids = busy_pids(tmp_path)
    assert pids[0] == worker.pid
    thread.join(PATIENCE_S)
    assert [str(error) for error in errors] == ["no answer to 'capture' within 2 s; the worker was stopped."]
    assert not worker.alive
    assert wait_until(lambda: all(gone(pid) for pid in pids))


def test_leaving_the_block_stops_a_busy_worker(tmp_path: Path, model: Callable[[str], Capture]) -> None:
    errors: list[WorkerError] = []

    def ask() -> None:
        try:
            worker.ask(model("hang"), 600.0)
        except WorkerError as error:
            errors.append(error)

    with Worker(tmp_path / "worker.log") as worker:
        thread = threading.Thread(target=ask)
        thread.start()
        pids, temporary = busy_pids(tmp_path), Path((tmp_path / "temporary").read_text())
        assert temporary.is_dir()
    thread.join(PATIENCE_S)
    assert [type(error) for error in errors] == [WorkerError]
    assert wait_until(lambda: all(gone(pid) for pid in pids))
    assert not temporary.exists(), "what it left among the temporary files is deleted"


PARENT = """
import sys
from pathlib import Path
from cross_backend.program.captures import Capture
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.worker.process import Worker
folder = Path(sys.argv[1])
with Worker(folder / "worker.log") as worker:
    worker.ask(Capture(f"{folder}/model.py:hang", None, None, folder / "cache"), 600)
"""


@fresh
def test_a_worker_goes_away_with_its_parent(tmp_path: Path, model: Callable[[str], Capture]) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)]) as parent:
        pids, temporary = busy_pids(tmp_path), Path((tmp_path / "temporary").read_text())
        assert not any(gone(pid) for pid in pids)
        parent.kill()
        parent.wait(PATIENCE_S)
    assert wait_until(lambda: all(gone(pid) for pid in pids)), "no orphan stays, even in the middle of work"
    assert wait_until(lambda: not temporary.exists())


def test_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(WorkerError, match=r"no folder for temporary files can be made \(No such file or directory\)"):
        Worker(tmp_path / "log")


@pytest.mark.parametrize("_how", [pytest.param("new", marks=fresh), "fork"])
def test_killing_at_once_works_and_twice_is_harmless(
    _how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Forked, "zygote", None)  # forks as commands do: nothing lies between fork and kill
    with Worker(tmp_path / "log") as worker:
        worker.kill()
        assert not worker.alive
        worker.kill()
        with pytest.raises(WorkerError):
            worker.ask(Run(None), PATIENCE_S)
