"""A rogue backend in a worker: garbage on its pipe, memory that leaks, calls that hang."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Subject
from cross_backend.bench.worker_bench import Open, Run
from cross_backend.errors import (
    WorkerError,
    WorkerTimeoutError,
)
from cross_backend.worker.process import Worker
from tests.unit.worker.patience import PATIENCE_S, fresh

ROGUE = """
import os, stat, sys, time
from pathlib import Path
from cross_backend.backend import Backend, Session

class Rogue(Backend):
    name, title, suffix, distributions = "rogue", "Rogue", ".null", ()
    def missing(self, machine): return None
    def lower(self, *arguments): raise NotImplementedError
    def load(self, artifact, options): return Opened(artifact, options)

class Opened(Session):
    def _open(self): self.kept = []
    def _bind(self, inputs): return getattr(self, os.environ["ROGUE"])
    def garbage(self):
        words = Path(os.environ["WORDS"]).read_bytes()
        for descriptor in range(3, 64):
            try:
                if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                    os.write(descriptor, words)
            except OSError:
                pass
        return []
    def leak(self):
        while True:
            self.leak_a_little()
    def leak_a_little(self):
        self.kept.append(b"x" * 20_000_000)
        time.sleep(0.02)
        return []
    def hang(self): time.sleep(600)
"""
# A backend that another package registers, whose calls do what a variable says.


@pytest.fixture
def rogue(tmp_path: Path, make_artifact: Callable[..., Artifact]) -> Callable[..., AbstractContextManager[Worker]]:
    """Give a function that starts a worker in which an artifact of the rogue backend is open."""
    info = tmp_path / "site" / "rogue-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rogue\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[cross_backend.backends]\nrogue = rogue:Rogue\n")
    (tmp_path / "site" / "rogue.py").write_text(ROGUE)
    manifest = make_artifact().manifest_path

    @contextlib.contextmanager
    def start(does: str, limit_bytes: int | None = None, words: bytes = b"") -> Iterator[Worker]:
        (tmp_path / "words").write_bytes(words)
        variables = {"PYTHONPATH": str(tmp_path / "site"), "ROGUE": does, "WORDS": str(tmp_path / "words")}
        with Worker(tmp_path / "rogue.log", variables=variables, memory_limit_bytes=limit_bytes) as worker:
            worker.ask(Open(Subject(manifest, "rogue", 1), 0), PATIENCE_S)
            yield worker

    return start


GARBAGE = {
    "no text": b"\xff\xfe\x00\n",
    "no JSON": b"Segmentation fault (core dumped)\n",
    "before the answer": b"a line without an end",
    "a number": b"5\n",
    "a word": b'"error"\n',
    "nothing": b"{}\n",
    "an error without text": b'{"error": {"type": "RunError"}}\n',
    "an error that is none": b'{"error": 5}\n',
    "too deep": b"[" * 60_000 + b"\n",
}


@pytest.mark.parametrize("words", GARBAGE.values(), ids=GARBAGE.keys())
@fresh
def test_garbage_on_the_pipe_ends_the_worker(
    rogue: Callable[..., AbstractContextManager[Worker]], words: bytes
) -> None:
    """A library that writes to descriptors that are not its own."""
    with rogue("garbage", words=words) as worker:
        with pytest.raises(WorkerError, match="answered 'run' with something that is no answer") as caught:
            worker.ask(Run(None), PATIENCE_S)
        assert str(worker.log) in str(caught.value) and "\n" not in str(caught.value)
        assert not worker.alive


@fresh
def test_an_answer_without_end_is_not_collected(
    rogue: Callable[..., AbstractContextManager[Worker]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cross_backend.worker.process._LONGEST_ANSWER_BYTES", 50_000)
    with rogue("garbage", words=b"x" * 60_000) as worker, pytest.raises(WorkerError, match="that is no answer"):
        worker.ask(Run(None), PATIENCE_S)


@fresh
def test_a_worker_that_leaks_is_stopped_at_its_limit(rogue: Callable[..., AbstractContextManager[Worker]]) -> None:
    with rogue("leak", limit_bytes=500_000_000) as worker:
        began = time.monotonic()
        with pytest.raises(
            WorkerError, match=r"^the worker used [0-2]\.\d GB, more than its limit of 0\.5 GB, and was"
        ):
            worker.ask(Run(None), 600)
        assert not worker.alive
        assert time.monotonic() - began < PATIENCE_S


@fresh
def test_many_calls_that_leak_a_little_reach_the_limit_too(
    rogue: Callable[..., AbstractContextManager[Worker]],
) -> None:
    """No call is long enough to be looked at while it works."""
    with rogue("leak_a_little", limit_bytes=500_000_000) as worker:
        with pytest.raises(WorkerError, match=r"more than its limit of 0\.5 GB, and was stopped"):
            [worker.ask(Run(None), PATIENCE_S) for _ in range(100)]
        assert not worker.alive


@fresh
def test_a_limit_leaves_timeouts_as_they_are(rogue: Callable[..., AbstractContextManager[Worker]]) -> None:
    with rogue("hang", limit_bytes=50_000_000_000) as worker:
        with pytest.raises(WorkerTimeoutError, match="no answer to 'run' within 1 s"):
            worker.ask(Run(None), 1.2)
        assert not worker.alive
