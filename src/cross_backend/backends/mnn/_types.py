"""Element types that MNN lacks: bfloat16 becomes float32 in a whole ONNX file, int8 becomes int32 at its edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def widen(graph: Any) -> None:
    """Make float32 of all bfloat16 in a graph and its branches: values, constants, casts."""
    import onnx

    half, single = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT
    for part in _graphs(graph):
        for value in (*part.input, *part.output, *part.value_info):
            if value.type.tensor_type.elem_type == half:
                value.type.tensor_type.elem_type = single
        for node in part.node:
            for attribute in node.attribute:
                if attribute.name in {"to", "dtype"} and attribute.i == half:
                    attribute.i = single
        for tensor in _constants(part):
            if tensor.data_type == half:
                numbers = onnx.numpy_helper.to_array(tensor).astype("float32")
                tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, tensor.name))


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for part in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(part)


def _constants(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def first_node(value: Any, name: str) -> Any:
    """Return the node that hands an input of the file to the graph; the caller renames the input.

    Args:
        value: the input; int8 becomes int32.
        name: of the input from now on.
    """
    return _edge(name, value.name, value, inward=True)


def last_node(value: Any, name: str) -> Any:
    """Return the node that hands a value of the graph to an output of the file; as :func:`first_node`."""
    return _edge(value.name, name, value, inward=False)


def _edge(source: str, target: str, value: Any, *, inward: bool) -> Any:
    import onnx

    kind = value.type.tensor_type
    if kind.elem_type != onnx.TensorProto.INT8:
        return onnx.helper.make_node("Identity", [source], [target])
    kind.elem_type = onnx.TensorProto.INT32
    to = onnx.TensorProto.INT8 if inward else onnx.TensorProto.INT32
    return onnx.helper.make_node("Cast", [source], [target], to=to)
