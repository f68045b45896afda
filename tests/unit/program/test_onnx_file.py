"""ONNX files of strangers: their data lie in their own folder, and only tensors of numbers are taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from cross_backend.errors import ArtifactError, CaptureError, CrossBackendError
from cross_backend.program.onnx_file import read_onnx


def external(location: str) -> TensorProto:
    """Give a tensor that lies in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "16")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def value(name: str, kind: int = TensorProto.FLOAT, shape: Any = (4,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes: list[Any], *weights: Any, inputs: Any = None, outputs: Any = None, functions: Any = ()) -> bytes:
    graph = helper.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y")], list(weights))
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=9, functions=functions)
    return bytes(made.SerializeToString())


ADD = helper.make_node("Add", ["x", "w"], ["y"])


def initializer(tensor: TensorProto) -> bytes:
    return model([ADD], tensor)


def constant(tensor: TensorProto) -> bytes:
    return model([helper.make_node("Constant", [], ["w"], value=tensor), ADD])


def function(tensor: TensorProto) -> bytes:
    body = [helper.make_node("Constant", [], ["w"], value=tensor), ADD]
    own = helper.make_function("own", "F", ["x"], ["y"], body, [helper.make_opsetid("", 17)])
    return model([helper.make_node("F", ["x"], ["y"], domain="own")], functions=[own])


def branch(tensor: TensorProto) -> bytes:
    part = helper.make_graph([helper.make_node("Identity", ["w"], ["z"])], "s", [], [value("z")], [tensor])
    chosen = helper.make_node("If", ["c"], ["w2"], then_branch=part, else_branch=part)
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    return model([chosen, helper.make_node("Add", ["x", "w2"], ["y"])], condition)


def sparse(tensor: TensorProto) -> bytes:
    made = onnx.ModelProto.FromString(model([helper.make_node("Identity", ["x"], ["y"])]))
    indices = helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3])
    made.graph.sparse_initializer.append(onnx.SparseTensorProto(values=tensor, indices=indices, dims=[4]))
    return bytes(made.SerializeToString())


PLACES = (initializer, constant, function, branch, sparse)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a model, with a secret outside and ways there; the secret is also where the command stands."""
    (tmp_path / "secret").write_bytes(b"SECRET!!" * 8)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("location", ["../secret", "{}/secret", "link", "up/secret", "pipe", "/dev/zero", "", "."])
def test_data_outside_of_its_folder_are_not_read(place: Any, location: str, folder: Path, tmp_path: Path) -> None:
    (folder / "m.onnx").write_bytes(place(external(location.format(tmp_path))))
    with pytest.raises(CaptureError, match="is damaged or not an ONNX model") as refused:
        read_onnx(folder / "m.onnx", folder / "copy.onnx")
    assert "SECRET" not in str(refused.value) and "\n" not in str(refused.value)
    assert not (folder / "copy.onnx").exists()


def test_data_where_the_command_stands_are_not_read(folder: Path) -> None:
    """ONNX's checker looks for sparse ones there."""
    (folder / "m.onnx").write_bytes(sparse(external("secret")))
    with pytest.raises(CaptureError, match="the tensor 'w' lies in another file"):
        read_onnx(folder / "m.onnx", folder / "copy.onnx")


@pytest.mark.parametrize("place", [initializer, constant])
def test_data_in_its_folder_are_read_and_copied(place: Any, folder: Path) -> None:
    weights = np.arange(4, dtype=np.float32)
    (folder / "m.data").write_bytes(weights.tobytes())
    (folder / "m.onnx").write_bytes(place(external("m.data")))
    found = read_onnx(folder / "m.onnx", folder / "copy.onnx")
    assert np.allclose(found.sample["expected"][0], np.asarray(found.sample["input"][0]) + weights)
    (folder / "m.data").unlink()
    again = read_onnx(folder / "copy.onnx", folder / "again.onnx")
    assert np.array_equal(again.sample["expected"][0], found.sample["expected"][0])


SEQUENCE = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, [2])
ODD = {
    "a sequence": ([SEQUENCE], "'x' is no tensor of numbers"),
    "texts": ([value("x", TensorProto.STRING)], "'x' is no tensor of numbers"),
    "a terabyte": ([value("x", shape=(1 << 20, 1 << 18))], "numbers are not drawn at random"),
    "more than numbers hold": ([value("x", shape=(1 << 60, 1 << 60))], "numbers are not drawn at random"),
    "a negative extent": ([value("x", shape=(-5,))], "no such inputs can be drawn"),
    "a hostile name": ([value("\x1b[2J\u202e", shape=(-5,))], r"input '\x1b[2J\u202e' is"),
}


@pytest.mark.parametrize("what", ODD)
def test_odd_inputs_are_refused(what: str, tmp_path: Path) -> None:
    inputs, said = ODD[what]
    outputs = [value("y", TensorProto.BOOL, ())]
    nodes = [helper.make_node("Constant", [], ["y"], value=helper.make_tensor("v", TensorProto.BOOL, [], [True]))]
    (tmp_path / "m.onnx").write_bytes(model(nodes, inputs=inputs, outputs=outputs))
    with pytest.raises(CrossBackendError) as refused:
        read_onnx(tmp_path / "m.onnx", tmp_path / "copy.onnx")
    assert said in str(refused.value) and str(refused.value).isprintable()


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    with pytest.raises(ArtifactError, match="is a pipe, not a file"):
        read_onnx(folder / "pipe", folder / "copy.onnx")
