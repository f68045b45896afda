"""The element types of a program, by which a device takes or refuses it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cross_backend.program.captured import OnnxProgram, Program
from cross_backend.program.running import name_of


@dataclass(frozen=True)
class Types:
    """Names of element types, in NumPy's spelling."""

    inputs: frozenset[str]
    """Of inputs."""
    constants: frozenset[str]
    """Of weights and constants that are read."""
    all: frozenset[str]
    """Of all values."""
    has_convolution: bool
    """Whether the program convolves."""


def types_in(program: Program) -> Types:
    """Return the element types of a program; of an ONNX file only those that it states."""
    return _of_onnx(program) if isinstance(program, OnnxProgram) else _of_torch(program)


def _of_torch(program: Any) -> Types:
    import torch

    given = {str(name) for name in program.graph_signature.user_inputs}
    values = {
        node: str(node.meta["val"].dtype).removeprefix("torch.")
        for node in program.graph.nodes
        if isinstance(node.meta.get("val"), torch.Tensor) and (node.users or node.name in given)
    }
    places = {node: kind for node, kind in values.items() if node.op == "placeholder"}
    return Types(
        inputs=frozenset(kind for node, kind in places.items() if node.name in given),
        constants=frozenset(kind for node, kind in places.items() if node.name not in given),
        all=frozenset(values.values()),
        has_convolution=any("conv" in name_of(node) for node in values),
    )


def _of_onnx(program: OnnxProgram) -> Types:
    import onnx

    graph = onnx.load(program.path, load_external_data=False).graph

    def names(numbers: Any) -> frozenset[str]:
        return frozenset(str(onnx.helper.tensor_dtype_to_np_dtype(n)) for n in numbers if n)

    constants = names(tensor.data_type for tensor in graph.initializer)
    weights = {tensor.name for tensor in graph.initializer}
    inputs = names(v.type.tensor_type.elem_type for v in graph.input if v.name not in weights)
    others = names(v.type.tensor_type.elem_type for v in (*graph.value_info, *graph.output))
    return Types(inputs, constants, inputs | constants | others, any("Conv" in node.op_type for node in graph.node))
