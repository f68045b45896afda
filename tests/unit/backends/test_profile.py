"""Profiles: right units, nothing counted twice, and the names that the runtimes give."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backend.profiles import in_order, typical
from cross_backend.errors import UnsupportedError
from cross_backend.records import Timing
from cross_backend.registry import resolve

TARGETS = ("portable", "xnnpack", "onnxruntime", "openvino", "torch")
LAYERS = 4


@pytest.fixture(scope="module")
def made() -> Callable[[str], Artifact]:
    """Give a function that lowers some matrix products, which take far longer than any profiler's resolution."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(256, 256) for _ in range(LAYERS)]
    program = xb.capture(torch.nn.Sequential(*layers).eval(), (torch.randn(32, 256),))
    return lambda target: xb.lower(program, target, name="products")


def profile(artifact: Artifact, *inputs: torch.Tensor, runs: int = 5) -> tuple[Timing, ...]:
    resolved = resolve(artifact.target)
    return resolved.backend.profile(artifact, {**resolved.options, "threads": 1}, inputs, runs)


@pytest.mark.parametrize("target", TARGETS)
def test_the_whole_profile_takes_about_as_long_as_a_call(target: str, made: Callable[[str], Artifact]) -> None:
    """A wrong unit is 1000 times off, all runs together are 20 times too much, in each of several tries."""
    x, artifact = torch.randn(32, 256), made(target)
    ratios = []
    while len(ratios) < 10 and not any(0.3 < ratio < 4 for ratio in ratios):
        with xb.load(artifact, threads=1) as session:
            run = session.bind((x,))
            times = []
            for _ in range(20):
                start = time.perf_counter()
                run()
                times.append(time.perf_counter() - start)
        total_ms = sum(row.ms for row in profile(artifact, x, runs=20))
        ratios.append(total_ms / (sorted(times)[len(times) // 2] * 1e3))
    assert 0.3 < ratios[-1] < 4, ratios


@pytest.mark.parametrize("target", TARGETS)
def test_calls_are_those_of_one_run(target: str, made: Callable[[str], Artifact]) -> None:
    rows = profile(made(target), torch.randn(32, 256))
    assert rows[0].calls == LAYERS, "the matrix products are the most expensive"
    assert rows[0].ms > 0


def test_kernels_of_a_portable_program_are_those_of_its_certificate(made: Callable[[str], Artifact]) -> None:
    artifact = made("portable")
    counted = {row.name.removeprefix("aten::"): row.count for row in artifact.placement.inside}
    assert {row.name: row.calls for row in profile(artifact, torch.randn(32, 256))} == counted


def test_a_delegate_that_tells_is_not_counted_twice(made: Callable[[str], Artifact]) -> None:
    rows = {row.kind: row for row in profile(made("xnnpack"), torch.randn(32, 256))}
    assert set(rows) == {"delegated", "delegate"}
    assert rows["delegate"].name == "XnnpackBackend" and rows["delegate"].calls == 1
    assert rows["delegated"].name.startswith("Fully Connected") and "#" not in rows["delegated"].name
    assert rows["delegate"].ms < rows["delegated"].ms, "what is left for the delegate itself is little"


def test_a_node_that_holds_a_subgraph_counts_without_it(tmp_path: Path) -> None:
    n = 512
    products = [
        helper.make_node("MatMul", [f"y{i}" if i else "x", "x"], [f"y{i + 1}" if i < 3 else "out"]) for i in range(4)
    ]
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [n, n])
    branch = helper.make_graph(products, "then", [], [out])
    same = helper.make_graph([helper.make_node("Identity", ["x"], ["out"])], "else", [], [out])
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
            helper.make_node("Greater", ["sum", "zero"], ["positive"]),
            helper.make_node("If", ["positive"], ["y"], then_branch=branch, else_branch=same),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [n, n])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [n, n])],
        [helper.make_tensor("zero", TensorProto.FLOAT, [], [0.0])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "if.onnx")
    artifact = xb.lower(xb.OnnxProgram(tmp_path / "if.onnx"), "onnxruntime")
    rows = {row.name: row for row in profile(artifact, torch.full((n, n), 1e-3))}
    assert rows["MatMul"].calls == 4 and rows["If"].calls == 1
    assert rows["If"].ms < rows["MatMul"].ms / 2


def test_onnxruntime_leaves_no_trace_behind(
    made: Callable[[str], Artifact], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert profile(made("onnxruntime"), torch.randn(32, 256))
    assert not list(tmp_path.iterdir())


def test_a_backend_without_one_says_so() -> None:
    with pytest.raises(UnsupportedError, match=r"torch\.compile has no profiler"):
        resolve("torch.compile").backend.profile(None, {}, (), 1)  # type: ignore[arg-type]


def test_typical_adds_within_a_run_and_takes_medians_over_runs() -> None:
    slow, usual = Timing("conv", "operator", 1, 90.0), Timing("conv", "operator", 1, 2.0)
    other = Timing("conv", "delegated", 1, 0.5)
    rows = typical([[usual, usual, other], [slow, usual, other], [usual, usual, other]])
    assert rows == (Timing("conv", "operator", 2, 4.0), Timing("conv", "delegated", 1, 0.5))


def test_typical_leaves_out_what_most_runs_do_not_do() -> None:
    once = Timing("allocate", "operator", 1, 5.0)
    usual = Timing("add", "operator", 1, 1.0)
    assert typical([[once, usual], [usual], [usual]]) == (usual,)
    assert typical([]) == ()


def test_shares_are_of_the_whole() -> None:
    row = Timing("add", "operator", 3, 0.25)
    assert row.to_json(1.0) == {"name": "add", "kind": "operator", "calls": 3, "ms": 0.25, "share": 0.25}
    assert Timing("add", "operator", 3, 0.0).to_json(0.0)["share"] == 0


def test_in_order_keeps_the_order_of_the_usual_run() -> None:
    first, second = Timing("add", "operator", 1, 1.0), Timing("conv", "operator", 1, 2.0)
    slow, other = Timing("add", "operator", 1, 5.0), Timing("allocate", "operator", 1, 9.0)
    assert in_order([[first, second], [other, first, second], [slow, second], [first, second]]) == (first, second)
    assert in_order([]) == ()
