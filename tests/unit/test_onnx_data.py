"""ONNX payloads: weights that no digest covers are found wherever a file may name them, and refused."""

from __future__ import annotations

import contextlib
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper

import cross_backend as xb
from cross_backend.artifact import Artifact, digest_path, size_of
from cross_backend.errors import ArtifactError, LoadError
from cross_backend.onnx_data import require_whole

X = np.ones((1, 4), np.float32)


def external(name: str = "w") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def inner(name: str = "w") -> TensorProto:
    return helper.make_tensor(name, TensorProto.FLOAT, [4], [1.0, 2.0, 3.0, 4.0])


def model(weight: TensorProto) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def attribute(**fields: Any) -> AttributeProto:
    return AttributeProto(name="a", **fields)


def in_node(made: AttributeProto) -> onnx.ModelProto:
    found = model(inner())
    found.graph.node[0].attribute.append(made)
    return found


def in_function() -> onnx.ModelProto:
    found = model(inner())
    node = helper.make_node("Constant", [], ["c"])
    node.attribute.append(attribute(type=AttributeProto.TENSOR, t=external()))
    found.functions.append(helper.make_function("d", "F", [], ["c"], [node], []))
    return found


def sparse() -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(values=external(), indices=inner("i"), dims=[4])


def in_sparse() -> onnx.ModelProto:
    found = model(inner())
    found.graph.sparse_initializer.append(sparse())
    return found


def in_training() -> onnx.ModelProto:
    found = model(inner())
    found.training_info.add().initialization.initializer.append(external())
    return found


def by_entries_only() -> onnx.ModelProto:
    """A tensor that names a file, and does not say that its data lie there."""
    weight = external()
    weight.ClearField("data_location")
    return model(weight)


def compiled() -> onnx.ModelProto:
    found = model(inner())
    found.graph.node.append(helper.make_node("EPContext", ["x"], ["z"], domain="com.microsoft", embed_mode=0))
    return found


GRAPH = model(external()).graph
PLACES = {
    "an initializer": lambda: model(external()),
    "the entries only": by_entries_only,
    "a tensor of a node": lambda: in_node(attribute(t=external())),
    "tensors of a node": lambda: in_node(attribute(tensors=[inner(), external()])),
    "a graph of a node": lambda: in_node(attribute(g=GRAPH)),
    "graphs of a node": lambda: in_node(attribute(graphs=[model(inner()).graph, GRAPH])),
    "a sparse tensor of a node": lambda: in_node(attribute(sparse_tensor=sparse())),
    "sparse tensors of a node": lambda: in_node(attribute(sparse_tensors=[sparse()])),
    "a function": in_function,
    "a sparse initializer": in_sparse,
    "training": in_training,
    "a compiled program": compiled,
}


@pytest.mark.parametrize("place", PLACES)
def test_data_in_other_files_are_found_wherever_they_may_be_named(place: str, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(PLACES[place]().SerializeToString())
    with pytest.raises(ArtifactError, match="no digest covers"):
        require_whole(path)


def test_every_message_of_onnx_that_may_hold_a_tensor_is_known() -> None:
    """The fields that are walked are those of the installed package's own description of its format."""
    from cross_backend.onnx_data import _FIELDS

    names = [
        *("ModelProto", "GraphProto", "NodeProto", "AttributeProto"),
        *("TensorProto", "SparseTensorProto", "FunctionProto", "TrainingInfoProto"),
    ]
    for message, fields in _FIELDS.items():
        described = getattr(onnx, names[message]).DESCRIPTOR
        held = {one.number: names.index(one.message_type.name) for one in described.fields if one.message_type
                and one.message_type.name in names}  # fmt: skip
        assert held == fields, names[message]


def test_a_whole_file_passes_and_a_damaged_one_is_an_error_of_ours(tmp_path: Path) -> None:
    sound, path, rng = model(inner()).SerializeToString(), tmp_path / "m.onnx", random.Random(0)
    path.write_bytes(sound)
    require_whole(path)
    for _ in range(500):
        data = bytearray(sound)
        for _ in range(rng.choice((1, 2, 8))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
        with contextlib.suppress(ArtifactError):
            require_whole(path)
    path.write_bytes(b"\x3a\x02\x3a\x00" * 3 + b"\x3a" + b"\xff" * 9 + b"\x01")
    with pytest.raises(ArtifactError, match="longer than its message"):
        require_whole(path)


def test_an_artifact_whose_weights_lie_beside_it_is_refused(folder: Path, tmp_path: Path) -> None:
    """Weights beside a payload were in no digest: multiplied by 7, they gave seven times the answer."""
    (path,) = (one for one in folder.glob("*.json") if Artifact.read(one).payload.endswith(".onnx"))
    made = Artifact.read(path)
    np.arange(1, 9, dtype=np.float32).tofile(folder / "weights.bin")
    made.payload_path.write_bytes(model(external()).SerializeToString())
    replace(made, sha256=digest_path(made.payload_path), size_bytes=size_of(made.payload_path)).write_manifest()
    with pytest.raises(ArtifactError, match="keeps weights in another file"):
        xb.load(made.payload_path)
    for other in set(folder.glob("*.json")) - {path}:
        other.unlink()
    with pytest.raises(LoadError, match="keeps weights in another file"):
        xb.load_best(folder)
