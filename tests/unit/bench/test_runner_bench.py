"""The runner bench: what a far side may answer, and what it may not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Subject
from cross_backend.bench.runner_bench import RunnerBench, RunnerBind, TensorRow
from cross_backend.errors import CrossBackendError, RunError, UnsupportedError
from cross_backend.instruments.memory import HeldMemory
from cross_backend.places.place import Place
from cross_backend.tensors import dtype_of
from cross_backend.worker.process import Elsewhere, Worker
from cross_backend.worker.question import Answering

SERVER = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    if line.strip():
        question = json.loads(line)
        print(json.dumps(answers[question["question"].rpartition(":")[2]]), flush=True)
"""
OPENED = {"value": {"cold": True, "load_ns": 5, "bind_ns": 7}}


class Folder(Place):
    """A place that is a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__("folder")
        self.folder, self.number = folder, 0

    @property
    def scratch(self) -> str:
        return str(self.folder)

    @property
    def facts(self) -> Mapping[str, str]:
        return {}

    def start(
        self, log: Path, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with log.open("ab") as file:
            return subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, start_new_session=True
            )

    def push(self, files: Mapping[str, Path]) -> str:
        self.number += 1
        there = self.folder / f"{self.number}"
        there.mkdir()
        for name, path in files.items():
            (there / name).write_bytes(path.read_bytes())
        return str(there)

    def pull(self, there: str, here: Path, most_bytes: int) -> None:
        assert Path(there).is_relative_to(self.folder), "only what is there comes here"
        here.write_bytes(Path(there).read_bytes()[: most_bytes + 1])

    def lost(self) -> str | None:
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Callable[..., RunnerBench]]:
    """Give a function that makes a bench with a far side of given answers."""
    benches: list[RunnerBench] = []

    def make(**answers: Any) -> RunnerBench:
        (tmp_path / "there").mkdir()
        place = Folder(tmp_path / "there")
        program = (sys.executable, "-c", SERVER, json.dumps({"Open": OPENED, "Bind": {"value": None}, **answers}))
        elsewhere = Elsewhere(place.start, {}, program, 30, 5)
        benches.append(RunnerBench(Worker(tmp_path / "log", elsewhere=elsewhere), 20, place))
        return benches[-1]

    yield make
    for bench in benches:
        bench.close()


def test_tensors_go_there_as_they_are(asked: Callable[..., RunnerBench]) -> None:
    bench = asked()
    arrays = [np.arange(6, dtype=">f4").reshape(2, 3).T, np.ones((), bool), np.zeros((0, 3), np.int64)]
    rows = bench.sent(arrays)
    assert [(row.dtype, row.shape) for row in rows] == [("float32", [3, 2]), ("bool", []), ("int64", [0, 3])]
    assert np.array_equal(np.fromfile(rows[0].path, "<f4").reshape(3, 2), arrays[0])
    back = bench.fetched(rows)
    assert all(np.array_equal(a, b) for a, b in zip(arrays, back, strict=True))


def test_bfloat16_comes_back_as_it_is(asked: Callable[..., RunnerBench], tmp_path: Path) -> None:
    bench = asked()
    path = tmp_path / "there" / "y.bin"
    np.array([0x3F80, 0xC000], "<u2").tofile(path)
    (found,) = bench.fetched([TensorRow(str(path), "bfloat16", [2])])
    assert found.dtype == dtype_of("bfloat16") and found.astype(np.float32).tolist() == [1, -2]


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("object", [2]),
        ("float32", [-1, 4]),
        ("float32", [2**62, 2**62]),
        ("float32", [2**31]),
        ("<f4", [2]),
        ("float32", [3]),
        ("\x1b[2J", [2]),
    ],
)
def test_outputs_that_are_no_tensors_are_refused(
    dtype: str, shape: list[int], asked: Callable[..., RunnerBench], tmp_path: Path
) -> None:
    (tmp_path / "y.bin").write_bytes(bytes(8))
    bench = asked()
    path = tmp_path / "there" / "y.bin"
    path.write_bytes(bytes(8))
    with pytest.raises(RunError) as caught:
        bench.fetched([TensorRow(str(path), dtype, shape)])
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    "answer",
    [
        *(
            {},
            [],
            {"value": None},
            {"value": {"cold": 1}},
            {"error": {}},
        ),
        *({"error": {"type": name, "text": "x"}} for name in ("SystemExit", "Path", "one_line", "PlaceLostError", 7)),
        {"error": {"type": "LoadError", "text": "\x1b[2Jno\nway"}},
        {"value": {"cold": True, "load_ns": "x", "bind_ns": []}},
    ],
)
def test_whatever_is_answered_is_one_error(
    answer: Any, asked: Callable[..., RunnerBench], make_artifact: Callable[..., Artifact]
) -> None:
    with pytest.raises(CrossBackendError) as caught:
        asked(Open=answer).open(Subject(make_artifact().payload_path, "null", 1))
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_what_only_python_can_do_is_said(
    asked: Callable[..., RunnerBench], make_artifact: Callable[..., Artifact]
) -> None:
    bench = asked()
    assert bench.pid is None
    opened = bench.open(Subject(make_artifact().payload_path, "null", 1))
    assert (opened.process_ns, opened.import_ns, opened.load_ns) == (None, None, 5)
    with pytest.raises(UnsupportedError, match="does not take 'held memory'"):
        bench.take(HeldMemory())
    with pytest.raises(RunError, match="question for the C\\+\\+ runner"):
        RunnerBind([]).answer(Answering(0))
