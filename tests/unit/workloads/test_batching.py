"""Batching: rows that differ, batch axes that are proved to be one, and models that have none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch.export import Dim

from cross_backend.cache import Cache
from cross_backend.errors import CaptureError
from cross_backend.program.captured import Captured
from cross_backend.program.captures import capture_workload, find_capture
from cross_backend.program.writing import write_capture
from cross_backend.tensors import load_tensors
from cross_backend.workloads import Workload, find_workload
from cross_backend.workloads.batching import batched, check_row, numpy_rows, torch_rows


class _Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("weight", torch.linspace(-1, 1, 12).reshape(4, 3))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def linear(m: Any, x: Any) -> Any:
    return x @ m.weight


X = torch.tensor([[1.0, 2.0, 3.0, 4.0]])


def store(function: Callable[..., Any], inputs: tuple[Any, ...], folder: Path, batch: int = 3) -> Captured:
    return write_capture(batched(Workload("net", _Call(function), inputs), batch), folder)


@pytest.fixture
def onnx_file(tmp_path: Path) -> Callable[..., Path]:
    """Give a function that writes ``y = x·w`` for an input shape, over a graph of further nodes."""

    def write(shape: tuple[Any, ...], nodes: tuple[Any, ...] = (), y: tuple[Any, ...] | None = None) -> Path:
        weight = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["h" if nodes else "y"]), *nodes],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, y or (*shape[:-1], 3))],
            [onnx.numpy_helper.from_array(weight, "w")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        path = tmp_path / "net.onnx"
        onnx.save(model, path)
        return path

    return write


@pytest.mark.parametrize(("batch", "name"), [(None, "resnet50"), (1, "resnet50"), (8, "resnet50_batch8")])
def test_a_batch_is_part_of_the_name_and_identity(batch: int | None, name: str) -> None:
    source = find_workload("resnet50", batch=batch)
    assert (source.text, source.name, source.batch) == ("resnet50", name, batch)
    assert (source.identity == find_workload("resnet50").identity) == (name == "resnet50")


def test_rows_are_the_example_rolled() -> None:
    workload = batched(Workload("net", _Call(linear), (X,), ((X + 1,),)), 3)
    assert (workload.name, workload.batch) == ("net_batch3", 3)
    assert workload.inputs[0].tolist() == [[1, 2, 3, 4], [4, 1, 2, 3], [3, 4, 1, 2]]
    assert workload.calibration[0][0].tolist() == [[2, 3, 4, 5], [5, 2, 3, 4], [4, 5, 2, 3]]


@pytest.mark.parametrize("rows", [torch_rows, lambda x, n: torch.from_numpy(numpy_rows(x.numpy(), n))])
@pytest.mark.parametrize("values", [[[1.0, 1.0]], [[2.0]], [[-3.0, -3.0, -3.0]]])
def test_rows_differ_where_rolling_changes_nothing(rows: Callable[[Any, int], Any], values: list[list[float]]) -> None:
    made = rows(torch.tensor(values), 4)
    assert made.dtype == torch.float32 and made[:1].tolist() == values
    assert len({tuple(row.tolist()) for row in made}) == 4
    assert bool((made.abs() <= abs(values[0][0])).all()), "the range stays"


def test_a_builtin_is_captured_in_batches(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    one, four = (capture_workload("linear_regression", None, cache, batch) for batch in (1, 4))
    assert (one.batch, four.batch, four.workload) == (1, 4, "linear_regression_batch4")
    assert (four.inputs[0].shape, four.outputs[0].shape) == ((4, 4), (4, 1))
    assert one.flops is not None and four.flops == 4 * one.flops
    expected = load_tensors(four.sample_path)["expected"][0]
    assert np.allclose(expected[:1], load_tensors(one.sample_path)["expected"][0])
    assert len({float(row[0]) for row in expected}) == 4
    assert four.calibration()[0][0].shape == (4, 4)
    found = find_capture(find_workload("linear_regression", batch=4), cache)
    assert found is not None and found.digest == four.digest


def test_a_task_stays_with_its_batches(tmp_path: Path) -> None:
    captured = capture_workload("digits_cnn", None, Cache(tmp_path), 7)
    assert captured.metric == "top-1 accuracy" and captured.batch == 7
    assert load_tensors(captured.task_path)["input"][0].shape == (360, 1, 8, 8)


@pytest.mark.parametrize(
    ("function", "inputs", "message"),
    [
        (linear, (torch.ones(2, 4),), r"example input 0 has the shape \[2, 4\]; .*leading extent of 1"),
        (lambda m, x, s: linear(m, x) * s, (X, torch.tensor(2.0)), r"example input 1 has the shape \[\]"),
        (lambda m, x: linear(m, x - x.mean(0)), (X,), "row 0 of output 0 differs from that of its input alone"),
        (lambda m, x: linear(m, x.flip(0)), (X,), "row 0 of output 0"),
        (lambda m, x: linear(m, x).cumsum(0), (X,), "row 2 of output 0"),
        (lambda m, x: x - x.mean(0), (torch.ones(1, 4),), "row 0 of output 0"),
        (lambda m, x: linear(m, x).sum(), (X,), r"no output has a leading extent of 3 \(\[\]\)"),
    ],
)
def test_a_model_without_a_batch_axis_is_refused(
    function: Callable[..., Any], inputs: tuple[Any, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        store(function, inputs, tmp_path)
    assert "\n" not in str(caught.value)


def test_several_inputs_and_outputs_may_be_nested(tmp_path: Path) -> None:
    inputs = ({"a": X, "b": torch.tensor([[1, 2]])},)
    captured = store(lambda m, d: (linear(m, d["a"]), d["b"] + 1, m.weight * 2), inputs, tmp_path)
    assert [spec.shape for spec in captured.inputs] == [(3, 4), (3, 2)]
    assert [spec.shape for spec in captured.outputs] == [(3, 3), (3, 2), (4, 3)]


@pytest.mark.parametrize(
    ("dtype", "away", "right"),
    [
        ("float32", 1e-5, True),
        ("float32", 1e-2, False),
        ("float16", 4e-3, True),
        ("int64", 0, True),
        ("int64", 1, False),
    ],
)
def test_rows_may_differ_by_rounding(dtype: str, away: float, right: bool) -> None:
    rows = np.arange(12).reshape(3, 4).astype(dtype)
    alone = [rows[1:2] + np.array(7 * away, dtype)]
    if right:
        check_row("net", 3, 1, [rows], alone)
    else:
        with pytest.raises(CaptureError):
            check_row("net", 3, 1, [rows], alone)


def test_a_row_may_differ_by_what_rounding_does_to_it(tmp_path: Path) -> None:
    """Cancellation leaves rounding errors only, and whole numbers jump where they are nearly a tie."""
    generator = torch.Generator().manual_seed(0)
    w, x = torch.randn(32, 16, 3, 3, generator=generator), torch.randn(1, 16, 20, 20, generator=generator)

    def convolved(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(x, w)

    for name in ("cancelled", "floored", "wrong"):
        (tmp_path / name).mkdir()
    store(lambda _, x: convolved(x) - ((convolved(x) + 1e4) - 1e4), (x,), tmp_path / "cancelled")
    store(lambda _, x: torch.floor(convolved(x) * 1e4).long(), (x,), tmp_path / "floored")
    with pytest.raises(CaptureError, match="no batch axis"):
        store(lambda _, x: torch.floor(convolved(x) * 1e4 + (x.shape[0] > 1)).long(), (x,), tmp_path / "wrong")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_must_be_none_in_both(value: float) -> None:
    rows = np.array([[value, 1], [2, 3]], np.float32)
    check_row("net", 2, 0, [rows], [rows[:1]])
    with pytest.raises(CaptureError):
        check_row("net", 2, 0, [rows], [np.array([[0, 1]], np.float32)])


def pt2(path: Path, *free: int) -> Path:
    """Export x·w with two rows; the leading dimension is free if 0 is among ``free``."""
    shapes = (({index: Dim(f"d{index}") for index in free},),) if free else None
    inputs = (torch.cat([X, X + 1]),)
    torch.export.save(torch.export.export(_Call(linear).eval(), inputs, dynamic_shapes=shapes), path)
    return path


@pytest.mark.parametrize("batch", [1, 5])
def test_a_program_with_a_free_batch_is_fixed(tmp_path: Path, batch: int) -> None:
    path = pt2(tmp_path / "net.pt2", 0)
    free = capture_workload(str(path), None, Cache(tmp_path / "cache"))
    assert isinstance(free.inputs[0].shape[0], str) and free.batch == 1
    captured = capture_workload(str(path), None, Cache(tmp_path / "cache"), batch)
    assert captured.inputs[0].shape == (batch, 4) and captured.outputs[0].shape == (batch, 3)
    assert captured.workload == ("net" if batch == 1 else "net_batch5")
    assert captured.flops == 24 * batch
    sample = load_tensors(captured.sample_path)
    assert sample["input"][0][0].tolist() == [1, 2, 3, 4]


def test_a_program_with_a_fixed_batch_says_so(tmp_path: Path) -> None:
    path = pt2(tmp_path / "net.pt2")
    with pytest.raises(CaptureError, match=r"net\.pt2 has a fixed batch of 2; export it with a free batch dimension"):
        capture_workload(str(path), None, Cache(tmp_path / "cache"), 4)
    assert capture_workload(str(path), None, Cache(tmp_path / "cache"), 1).inputs[0].shape == (2, 4)


@pytest.mark.parametrize("batch", [1, 4])
def test_an_onnx_file_with_a_free_batch_is_fixed(onnx_file: Callable[..., Path], tmp_path: Path, batch: int) -> None:
    path = onnx_file(("batch", 4))
    free = capture_workload(str(path), None, Cache(tmp_path / "cache"))
    captured = capture_workload(str(path), None, Cache(tmp_path / "cache"), batch)
    assert (free.inputs[0].shape, free.batch) == (("batch", 4), 1)
    assert (captured.inputs[0].shape, captured.outputs[0].shape) == ((batch, 4), (batch, 3))
    one, several = (load_tensors(c.sample_path) for c in (free, captured))
    assert np.array_equal(several["input"][0][:1], one["input"][0])
    assert np.allclose(several["expected"][0][:1], one["expected"][0])
    assert np.array_equal(several["input"][0][-1:], np.roll(one["input"][0], batch - 1, -1))


def test_other_free_extents_of_an_onnx_file_stay(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    captured = capture_workload(str(onnx_file(("n", "length", 4))), None, Cache(tmp_path / "cache"), 2)
    assert captured.inputs[0].shape == (2, "length", 4) and captured.outputs[0].shape == (2, "length", 3)
    assert load_tensors(captured.sample_path)["expected"][0].shape == (2, 1, 3)


def test_an_onnx_file_with_a_fixed_batch_names_the_remedy(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    path = onnx_file((1, 4))
    with pytest.raises(CaptureError) as caught:
        capture_workload(str(path), None, Cache(tmp_path / "cache"), 4)
    assert str(caught.value) == (
        "net.onnx has a fixed batch of 1; export it with a free batch dimension: "
        "cross-backend export MODEL --onnx net.onnx."
    )
    assert capture_workload(str(path), None, Cache(tmp_path / "cache"), 1).inputs[0].shape == (1, 4)


def test_an_onnx_file_whose_rows_depend_on_each_other_is_refused(
    onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    path = onnx_file(("n", 4), (helper.make_node("Softmax", ["h"], ["y"], axis=0),))
    with pytest.raises(CaptureError, match="row 0 of output 0 differs from that of its input alone"):
        capture_workload(str(path), None, Cache(tmp_path / "cache"), 4)


def test_the_reference_of_a_batch_is_checked_against_the_evaluator(
    onnx_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runtime that is wrong must not become the reference."""
    import onnxruntime

    path = onnx_file(("n", 4))
    run = onnxruntime.InferenceSession.run
    monkeypatch.setattr(onnxruntime.InferenceSession, "run", lambda *a: [y * 1.01 for y in run(*a)])
    doubted = capture_workload(str(path), None, Cache(tmp_path / "other"), 4)
    assert "part at" in bytes(load_tensors(doubted.sample_path)["doubt"][0]).decode(), "so that nothing is judged by it"
    monkeypatch.setattr(onnxruntime, "InferenceSession", None)  # without it the evaluator runs all rows
    assert capture_workload(str(path), None, Cache(tmp_path / "cache"), 4).inputs[0].shape == (4, 4)
