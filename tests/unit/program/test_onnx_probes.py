"""Probes of ONNX files reach the bounds of the graph, free sizes and rows of tables; the proof names them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from cross_backend.program.onnx_file import OnnxFile, read_onnx
from cross_backend.program.onnx_probes import OnnxGraph, work_of
from cross_backend.verify.compare import compare_further
from cross_backend.verify.further import PROBE, further_of


def read(
    folder: Path,
    nodes: Sequence[Any],
    constants: dict[str, Any],
    shape: Sequence[Any],
    dtype: int = TensorProto.FLOAT,
    rank: int = 0,
) -> OnnxFile:
    weights = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    x = helper.make_tensor_value_info("x", dtype, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"y{axis}" for axis in range(rank or len(shape))])
    graph = helper.make_graph(list(nodes), "g", [x], [y], initializer=weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return read_onnx(folder / "m.onnx", folder / "copy.onnx")


def wrong_probes(found: OnnxFile, wrong: Any) -> list[str]:
    probes = list(further_of(PROBE, found.sample))
    assert [one.name for one in probes] == list(found.probes)
    for one in probes:
        assert compare_further(found.sample, one, found.run(one.inputs), "fp32") is None
    return [one.name for one in probes if compare_further(found.sample, one, [wrong(*one.inputs)], "fp32")]


def test_a_bound_that_the_sample_never_meets_is_reached(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["m"]),
        helper.make_node("Clip", ["m", "low", "high"], ["y"]),
    ]
    constants = {"two": np.float32(2), "low": np.float32(-90), "high": np.float32(70)}
    found = read(tmp_path, nodes, constants, [1, 64])
    assert float(found.sample["expected"][0].max()) < 70
    assert "thresholds" in wrong_probes(found, lambda x: np.maximum(x * 2, -90))
    assert wrong_probes(found, lambda x: np.minimum(x * 2, 70))


@pytest.mark.parametrize("wrong_row", [0, 99])
def test_each_end_of_a_table_is_read(wrong_row: int, tmp_path: Path) -> None:
    table = np.random.default_rng(0).standard_normal((100, 3)).astype(np.float32)
    broken = table.copy()
    broken[wrong_row] += 1
    found = read(tmp_path, [helper.make_node("Gather", ["t", "x"], ["y"])], {"t": table}, [1, 4], TensorProto.INT64, 3)
    assert wrong_probes(found, lambda x: broken[x])


def test_free_extents_are_tried_larger(tmp_path: Path) -> None:
    found = read(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {}, ["n", 4])
    assert found.sample["input"][0].shape == (1, 4)
    assert "larger sizes" in wrong_probes(found, lambda x: np.maximum(x, 0) * (len(x) == 1))


def test_an_output_that_depends_on_no_input_is_known(tmp_path: Path) -> None:
    found = read(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {}, [4])
    assert found.sample["fixed"][0].tolist() == [False]
    graph = helper.make_graph([helper.make_node("Relu", ["c"], ["y"])], "g", [], [])
    assert OnnxGraph(helper.make_model(graph)).fixed(["x"], ["y"]) == [True]


def test_a_probe_on_which_the_references_disagree_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cross_backend.program import onnx_file

    calls = []

    def runtime(model: Any) -> Any:
        def run(feed: Any) -> list[Any]:
            calls.append(feed)
            return [np.maximum(feed["x"], 0) + (feed["x"].min() <= -1e2)]

        return run

    monkeypatch.setattr(onnx_file, "runtime_of", runtime)
    constants = {"t": np.float32(-100)}
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Greater", ["x", "t"], ["g"])]
    nodes += [helper.make_node("Cast", ["g"], ["c"], to=1), helper.make_node("Mul", ["c", "r"], ["y"])]
    found = read(tmp_path, nodes, constants, [64])
    assert calls and any("the references differ" in reason for reason in found.dropped.values())
    assert not set(found.dropped) & set(found.probes)


def test_work_is_that_of_the_products(tmp_path: Path) -> None:
    weight = np.zeros((8, 3, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    read(tmp_path, [node], {"w": weight}, [1, 3, 10, 10])
    assert work_of(onnx.load(tmp_path / "copy.onnx")) == 2 * 8 * 27 * 100
