"""The truth of an ONNX file: two that agree decide, one alone is named, and where they part the operator is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cross_backend.errors import CaptureError
from cross_backend.program import onnx_truth
from cross_backend.program.onnx_file import read_onnx
from cross_backend.program.onnx_truth import CONVERTED, EVALUATOR, RUNTIME, find_truth
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import compare_outputs

CASES = Path(__file__).parents[2] / "cases" / "onnx"
X = np.random.default_rng(0).standard_normal((1, 4)).astype(np.float32)


def model(*nodes: Any, opset: int = 17) -> Any:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    graph = helper.make_graph(list(nodes), "g", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


RELU = helper.make_node("Relu", ["x"], ["y"], name="last")


def test_two_that_agree_decide() -> None:
    truth = find_truth(model(RELU), {"x": X}, "m.onnx")
    assert truth.doubt is None and EVALUATOR in truth.reference and f"{RUNTIME} agrees" in truth.reference
    assert np.array_equal(truth.outputs[0], np.maximum(X, 0))


@pytest.mark.parametrize(
    ("name", "reference", "doubt"),
    [
        ("bn9", CONVERTED, None),
        ("seg11", CONVERTED, None),
        ("bn8", CONVERTED, None),
        ("static17", CONVERTED, None),
        ("convt", f"{RUNTIME} alone", None),
        ("loop", f"{RUNTIME} alone", None),
        ("resize10", RUNTIME, "part at Resize"),
        ("ln_scale2", EVALUATOR, None),
    ],
)
def test_files_of_older_opsets(name: str, reference: str, doubt: str | None, tmp_path: Path) -> None:
    found = read_onnx(CASES / f"{name}.onnx", tmp_path / "copy.onnx")
    assert found.reference.startswith(reference)
    said = bytes(found.sample["doubt"][0]).decode() if "doubt" in found.sample else None
    assert said == doubt if doubt is None else doubt in str(said)


def test_batch_normalisation_is_the_formula(tmp_path: Path) -> None:
    """ONNX's evaluator is off by 0.14 at opset 9; the definition is (x − mean)/√(var + ε)·scale + bias."""
    found = read_onnx(CASES / "bn9.onnx", tmp_path / "copy.onnx")
    graph = onnx.load(CASES / "bn9.onnx").graph
    scale, bias, mean, var = (
        onnx.numpy_helper.to_array(next(t for t in graph.initializer if t.name == name))[:, None, None]
        for name in graph.node[0].input[1:5]
    )
    epsilon = next((a.f for a in graph.node[0].attribute if a.name == "epsilon"), 1e-5)
    x = found.sample["input"][0]
    wanted = (x - mean) / np.sqrt(var + epsilon) * scale + bias
    assert np.allclose(found.sample["expected"][0], wanted, atol=1e-5)


def test_where_they_part_nothing_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_truth, "runtime_of", lambda made: lambda feed: [np.abs(feed["x"])])
    truth = find_truth(model(RELU, opset=21), {"x": X}, "m.onnx")
    assert truth.doubt is not None and f"{EVALUATOR} and {RUNTIME} part at" in truth.doubt
    sample = {"expected": truth.outputs, "doubt": [np.frombuffer(truth.doubt.encode(), np.uint8)]}
    for outputs in ([X * 7], list(truth.outputs), [X[:, :2]]):
        found = compare_outputs(sample, [outputs])
        assert found.outcome == "NOT_PROVED" and "the reference is in doubt" in str(found.why)


def test_what_nothing_runs_is_said_with_each_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_truth, "runtime_of", lambda made: lambda feed: [feed["no such"]])
    broken = model(helper.make_node("NoSuchOperator", ["x"], ["y"]))
    with pytest.raises(CaptureError, match=r"m\.onnx has no reference, because nothing here can run it") as caught:
        find_truth(broken, {"x": X}, "m.onnx")
    assert EVALUATOR in str(caught.value) and RUNTIME in str(caught.value)


def test_the_sample_file_of_a_doubted_reference_reads_back(tmp_path: Path) -> None:
    from cross_backend.program.writing import write_capture
    from cross_backend.workloads import find_workload

    captured = write_capture(find_workload(str(CASES / "resize10.onnx")).build(), tmp_path)
    assert "doubt" in load_tensors(captured.sample_path) and captured.proof["reference"] == RUNTIME
