"""Workers: processes that answer, say what went wrong, and keep their protocol clean."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
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
)
from cross_backend.lowering.lower import Lower
from cross_backend.program.captured import Captured
from cross_backend.program.captures import Capture
from cross_backend.tensors import load_tensors, save_tensors
from cross_backend.worker.process import Worker
from cross_backend.worker.question import Answering, Question
from tests.unit.worker.patience import PATIENCE_S, fresh


@dataclass(frozen=True)
class Stranger(Question[int]):
    """What no worker knows, because it is not of this package."""

    def answer(self, _process: Answering) -> int:
        return 1


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


@pytest.mark.slow
@fresh
def test_what_libraries_print_goes_to_the_log(worker: Worker, model: Callable[[str], Capture]) -> None:
    assert worker.ask(model("chatty"), PATIENCE_S)[0].is_dir()
    log = worker.log.read_text()
    for line in ("printed", "written to the descriptor", "from a child", "to stderr"):
        assert line in log
    assert worker.ask(model("chatty"), PATIENCE_S)[0].is_dir()


@fresh
def test_ctrl_c_reaches_the_parent_only(worker: Worker, make_artifact: Callable[..., Artifact]) -> None:
    manifest = make_artifact().manifest_path
    worker.ask(Open(Subject(manifest, "null", 1), 0), PATIENCE_S)
    os.kill(worker.pid, signal.SIGINT)
    assert worker.ask(Run(None), PATIENCE_S) == (0.0,)
    assert os.getpgid(worker.pid) == worker.pid != os.getpgid(0)
