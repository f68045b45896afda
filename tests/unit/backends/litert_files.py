"""Small ``.tflite`` files, written with the runtime's own schema, so that quick tests need no converter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from cross_backend.artifact import Artifact
from cross_backend.backends._foreign import artifact_of
from cross_backend.tensors import TensorSpec

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4) / 7 - 0.8
BIAS = np.array([0.5, -0.25, 0.125], np.float32)
X, W, B, Y, AXIS, LABEL = range(6)
"""Tensors of the network."""
INPUTS = (TensorSpec("x", "float32", (2, 4)),)
OUTPUTS = (TensorSpec("y", "float32", (2, 3)), TensorSpec("label", "int64", (2,)))
"""As a program has them: the file's labels have 32 bits."""
_TYPES = {"float32": "FLOAT32", "int32": "INT32", "int64": "INT64", "bfloat16": "BFLOAT16"}


def network() -> Any:
    """Give a linear layer, and the place of its largest output."""
    model = schema.ModelT()
    model.version = 3
    model.buffers = [schema.BufferT()]
    model.operatorCodes = [_code("FULLY_CONNECTED"), _code("ARG_MAX")]
    graph = schema.SubGraphT()
    graph.tensors = []
    _add(model, graph, "x", np.zeros((2, 4), np.float32), is_constant=False)
    _add(model, graph, "w", WEIGHTS)
    _add(model, graph, "b", BIAS)
    _add(model, graph, "y", np.zeros((2, 3), np.float32), is_constant=False)
    _add(model, graph, "axis", np.array(1, np.int32))
    _add(model, graph, "label", np.zeros(2, np.int32), is_constant=False)
    linear, argmax = schema.FullyConnectedOptionsT(), schema.ArgMaxOptionsT()
    argmax.outputType = schema.TensorType.INT32
    graph.operators = [
        _operator(0, [X, W, B], [Y], schema.BuiltinOptions.FullyConnectedOptions, linear),
        _operator(1, [Y, AXIS], [LABEL], schema.BuiltinOptions.ArgMaxOptions, argmax),
    ]
    graph.inputs, graph.outputs = [X], [Y, LABEL]
    model.subgraphs = [graph]
    return model


def packed(model: Any) -> bytes:
    """Write a model as a file's bytes."""
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def write(folder: Path, change: Callable[[Any], None] = lambda _: None) -> Artifact:
    """Write the network, changed, and give an artifact of it."""
    model = network()
    change(model)
    path = folder / "net.tflite"
    path.write_bytes(packed(model))
    return artifact_of(path, "litert", INPUTS, OUTPUTS)


def expected(x: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
    """Compute what the network gives."""
    y = x @ WEIGHTS.T + BIAS
    return y, y.argmax(1)


def _code(kind: str) -> Any:
    row = schema.OperatorCodeT()
    row.builtinCode = row.deprecatedBuiltinCode = getattr(schema.BuiltinOperator, kind)
    return row


def _add(model: Any, graph: Any, name: str, value: np.ndarray[Any, Any], *, is_constant: bool = True) -> None:
    tensor, buffer = schema.TensorT(), schema.BufferT()
    tensor.name, tensor.shape = name, list(value.shape)
    tensor.type = getattr(schema.TensorType, _TYPES[str(value.dtype)])
    tensor.buffer = len(model.buffers) if is_constant else 0
    if is_constant:
        buffer.data = np.frombuffer(value.tobytes(), np.uint8)
        model.buffers.append(buffer)
    graph.tensors.append(tensor)


def _operator(code: int, inputs: list[int], outputs: list[int], kind: int, options: Any) -> Any:
    row = schema.OperatorT()
    row.opcodeIndex, row.inputs, row.outputs = code, inputs, outputs
    row.builtinOptionsType, row.builtinOptions = kind, options
    return row
