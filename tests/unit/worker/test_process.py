"""Workers: processes that die alone, say how, keep their protocol clean, and never outlive their parent."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Subject
from cross_backend.bench.worker_bench import Bind, Open, Run, Sample, Verify
from cross_backend.errors import (
    ArtifactError,
    CaptureError,
    CrossBackendError,
    RunError,
    UnavailableError,
    UsageError,
    WorkerError,
    WorkerTimeoutError,
)
from cross_backend.lowering.lower import Lower
from cross_backend.program.capture import Captured
from cross_backend.program.captures import Capture
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.worker.process import Worker
from cross_backend.worker.question import Answering, Question
from tests.zygote import Forked

fresh = pytest.mark.fresh_workers
"""Of what is about a new process: its streams, its memory, its parent. What is about answers and ends can be a fork."""

PATIENCE_S = 60.0
MODEL = """
import os, subprocess, sys, time
import torch
net = torch.nn.Linear(4, 2), (torch.ones(1, 4),)
def hang():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(os.path.join(os.path.dirname(__file__), "pids"), "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(600)
def chatty():
    print("printed", flush=True)
    os.write(1, b"written to the descriptor\\n")
    os.system("echo from a child")
    print("to stderr", file=sys.stderr)
    return net
def abort():
    print("the last words\\nframe #29: a_symbol + 0x1b (in lib.so)", file=sys.stderr, flush=True)
    os.abort()
def leave():
    os._exit(7)
def greedy():
    return sys.stdin.read(), net
"""
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


@dataclass(frozen=True)
class Stranger(Question[int]):
    """What no worker knows, because it is not of this package."""

    def answer(self, _process: Answering) -> int:
        return 1


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


@pytest.fixture
def model(tmp_path: Path) -> Callable[[str], Capture]:
    """Give a function that asks to capture one of the models above."""
    (tmp_path / "model.py").write_text(MODEL)
    return lambda name: Capture(f"{tmp_path}/model.py:{name}", None, None, tmp_path / "cache")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    with Worker(tmp_path / "logs" / "worker.log") as found:
        yield found


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


@fresh
def test_answers_several_requests(worker: Worker, make_artifact: Callable[..., Artifact]) -> None:
    manifest = make_artifact().manifest_path
    for _ in range(2):
        assert worker.ask(Open(Subject(manifest, "null", 1), 0), PATIENCE_S).load_s >= 0
        assert worker.ask(Run(None), PATIENCE_S) == (0.0,)
        assert len(worker.ask(Sample(5, 1, 5.0), PATIENCE_S).ns) == 5
    found = worker.ask(Verify("fp32"), PATIENCE_S).comparison
    assert (found.verdict, found.max_rel) == (False, 0.5)
    assert worker.alive


def test_errors_come_back_as_what_they_were(
    worker: Worker, make_artifact: Callable[..., Artifact], model: Callable[[str], Capture]
) -> None:
    manifest = make_artifact().manifest_path
    damaged = make_artifact("damaged")
    damaged.manifest_path.write_text("{")
    for kind, question in (
        (RunError, Run(None)),
        (RunError, Stranger()),
        (UsageError, Open(Subject(manifest, "nul", 1), 0)),
        (ArtifactError, Open(Subject(damaged.manifest_path, "null", 1), 0)),
        (UsageError, model("no_such_function")),
        (CaptureError, model("greedy")),
        (CrossBackendError, Sample("five", 1, 1.0)),  # type: ignore[arg-type]
    ):
        with pytest.raises(kind) as caught:
            worker.ask(question, PATIENCE_S)
        assert type(caught.value) is kind, question
        assert "\n" not in str(caught.value)
    assert worker.alive


@fresh
def test_a_users_inputs_replace_the_sample(
    worker: Worker, make_artifact: Callable[..., Artifact], tmp_path: Path
) -> None:
    artifact, path = make_artifact(), tmp_path / "mine.npz"
    worker.ask(Open(Subject(artifact.manifest_path, "null", 1), 0), PATIENCE_S)
    save_tensors(path, {"input": [np.zeros((1, 4), np.float32)]})
    assert worker.ask(Bind(path), PATIENCE_S) is None
    worker.ask(Run(tmp_path / "out.npz"), PATIENCE_S)
    assert load_tensors(tmp_path / "out.npz")["output"][0].tolist() == [[0.0]]
    for groups in ({"input": [np.zeros((1, 3), np.float32)]}, {"inputs": [np.zeros((1, 4), np.float32)]}, {}):
        save_tensors(path, groups)
        with pytest.raises(CrossBackendError, match="input") as caught:
            worker.ask(Bind(path), PATIENCE_S)
        assert "KeyError" not in str(caught.value), "say which member the file lacks"


@fresh
def test_an_unavailable_backend_keeps_reason_and_remedy(
    tmp_path: Path, linear: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSS_BACKEND_TOOLCHAINS", str(tmp_path / "none"))
    with Worker(tmp_path / "worker.log") as worker, pytest.raises(UnavailableError) as caught:
        worker.ask(Lower(linear.folder, "mps", bundled=False, cache=tmp_path / "cache"), PATIENCE_S)
    assert caught.value.reason and caught.value.remedy
    assert str(caught.value) == f"{caught.value.reason}; {caught.value.remedy}"


@fresh
def test_an_interpreter_that_is_gone_is_an_error_of_the_worker(tmp_path: Path) -> None:
    with pytest.raises(WorkerError, match=r"a worker cannot be started \(/nowhere/python: No such file"):
        Worker(tmp_path / "log", "/nowhere/python")


@fresh
def test_what_libraries_print_goes_to_the_log(worker: Worker, model: Callable[[str], Capture]) -> None:
    assert worker.ask(model("chatty"), PATIENCE_S)[0].is_dir()
    log = worker.log.read_text()
    for line in ("printed", "written to the descriptor", "from a child", "to stderr"):
        assert line in log
    assert worker.ask(model("chatty"), PATIENCE_S)[0].is_dir()


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
        pids = busy_pids(tmp_path)
    thread.join(PATIENCE_S)
    assert [type(error) for error in errors] == [WorkerError]
    assert wait_until(lambda: all(gone(pid) for pid in pids))


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
        pids = busy_pids(tmp_path)
        assert not any(gone(pid) for pid in pids)
        parent.kill()
        parent.wait(PATIENCE_S)
    assert wait_until(lambda: all(gone(pid) for pid in pids)), "no orphan stays, even in the middle of work"


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


@fresh
def test_ctrl_c_reaches_the_parent_only(worker: Worker, make_artifact: Callable[..., Artifact]) -> None:
    manifest = make_artifact().manifest_path
    worker.ask(Open(Subject(manifest, "null", 1), 0), PATIENCE_S)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.ask(Run(None), PATIENCE_S) == (0.0,)
    assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)


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
