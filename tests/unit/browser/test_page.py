"""A page in a real browser: right outputs, times of its own clock, and an end that leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import psutil
import pytest
from onnx import TensorProto, helper

from cross_backend.browser.page import Page
from cross_backend.errors import LoadError, RunError

KINDS = ("bool", "float16", "float32", "float64", "int8", "int32", "int64", "uint8")


@pytest.fixture(scope="module")
def page(browser: None) -> Iterator[Page]:
    with Page(("--disable-gpu",)) as opened:
        yield opened


def save(path: Path, kinds: tuple[str, ...], shape: list[int | str]) -> Path:
    """Write a model that gives what it takes."""
    types = [helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in kinds]
    takes = [helper.make_tensor_value_info(f"x{i}", kind, shape) for i, kind in enumerate(types)]
    gives = [helper.make_tensor_value_info(f"y{i}", kind, shape) for i, kind in enumerate(types)]
    nodes = [helper.make_node("Identity", [f"x{i}"], [f"y{i}"]) for i in range(len(kinds))]
    graph = helper.make_graph(nodes, "same", takes, gives)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def save_loop(path: Path) -> Path:
    """Write a model that takes a long time: it adds one so many times."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["before", "one"], ["after"]),
            helper.make_node("Identity", ["go"], ["going"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("before", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("after", TensorProto.FLOAT, [1]),
        ],
    )
    one = helper.make_tensor("one", TensorProto.FLOAT, [1], [1.0])
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [1])
    takes = [
        helper.make_tensor_value_info("times", TensorProto.INT64, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
    ]
    gives = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])]
    loop = helper.make_node("Loop", ["times", "yes", "x"], ["y"], body=body)
    graph = helper.make_graph([loop], "loop", takes, gives, [one, yes])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_every_kind_of_tensor_goes_there_and_back(page: Page, tmp_path: Path) -> None:
    model = page.open(save(tmp_path / "m.onnx", KINDS, [2, "n"]), "wasm", 1)
    assert model.inputs == tuple(f"x{i}" for i in range(len(KINDS))) and model.log == ()
    for width in (3, 0):
        arrays = [np.arange(2 * width).reshape(2, width).astype(kind) for kind in KINDS]
        found = page.run(page.bind(arrays))
        assert [(a.dtype, a.shape) for a in found] == [(a.dtype, a.shape) for a in arrays]
        assert all(np.array_equal(a, b) for a, b in zip(found, arrays, strict=True))


def test_it_is_isolated_so_that_threads_and_the_clock_are_there(page: Page, tmp_path: Path) -> None:
    for threads in (1, 2):
        assert page.open(save(tmp_path / "m.onnx", ("float32",), [4]), "wasm", threads).threads == threads
        assert page.run(page.bind([np.ones(4, "float32")]))[0].tolist() == [1, 1, 1, 1]
    assert page.is_isolated and page.browser.startswith(("Chromium ", "Edge "))


def test_calls_are_timed_in_the_page(page: Page, tmp_path: Path) -> None:
    """What is timed there takes less than the way there, and as many calls are timed as were asked for."""
    page.open(save(tmp_path / "m.onnx", ("float32",), [4]), "wasm", 1)
    key = page.bind([np.ones(4, "float32")])
    began = time.perf_counter_ns()
    (found,), one = page.timed(key)
    there_and_back = time.perf_counter_ns() - began
    assert found.tolist() == [1, 1, 1, 1] and one % 5000 == 0 and one < there_and_back
    ns = page.sample(key, 50, 5, 60)
    assert len(ns) == 50 and all(n % 5000 == 0 for n in ns), "steps of 5 µs"
    assert 0 < min(ns) < there_and_back


def test_sampling_stops_when_the_time_is_over(page: Page, tmp_path: Path) -> None:
    page.open(save_loop(tmp_path / "m.onnx"), "wasm", 1)
    key = page.bind([np.array(20_000), np.zeros(1, "float32")])
    ns = page.sample(key, 100_000, 0, 0.3)
    assert 0 < len(ns) < 100_000
    assert page.run(key)[0].tolist() == [20_000.0]


def test_what_the_runtime_says_is_passed_on(page: Page, tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(LoadError, match="protobuf"):
        page.open(tmp_path / "no.onnx", "wasm", 1)
    page.open(save(tmp_path / "m.onnx", ("float32",), [4]), "wasm", 1)
    key = page.bind([np.ones(4, "float64")])
    with pytest.raises(RunError, match=r"tensor\(double\)"):
        page.run(key)


@pytest.mark.slow
def test_a_page_that_is_killed_is_an_error_and_nothing_is_left(
    browser: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GLIBC_TUNABLES", raising=False)  # with it a renderer keeps the command line of its zygote
    with Page(("--disable-gpu",)) as page:
        page.open(save(tmp_path / "m.onnx", ("float32",), [4]), "wasm", 1)
        key = page.bind([np.ones(4, "float32")])
        everyone, killed = psutil.Process(page.pid).children(recursive=True), []
        for one in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):  # helpers of a browser come and go
                if "--type=renderer" in one.cmdline():
                    one.kill()
                    killed.append(one)
        assert killed and psutil.wait_procs(killed, 20)[1] == []
        with pytest.raises(RunError, match="page crashed or was closed"):
            page.run(key)
    _, alive = psutil.wait_procs(everyone, 20)
    assert alive == []


OWNER = """
import time
from cross_backend.browser.page import Page
print(Page(("--disable-gpu",)).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="elsewhere a browser does not hang on a pipe")
def test_a_browser_ends_when_its_owner_is_killed(browser: None) -> None:
    with tempfile.TemporaryDirectory() as folder:  # a short path: browsers put a socket there
        environment = {**os.environ, "TMPDIR": folder}
        with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, env=environment) as owner:
            assert owner.stdout is not None
            started = psutil.Process(int(owner.stdout.readline()))
            everyone = [started, *started.children(recursive=True)]
            owner.kill()
        _, alive = psutil.wait_procs(everyone, 30)
        assert alive == []
        assert list(Path(folder).glob("cross-backend-browser-*")) == []
