"""A ``.tflite`` file that no manifest describes: what it takes and returns."""

from __future__ import annotations

from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.backends._foreign import artifact_of
from cross_backend.backends.litert._file import Tensor, read_graph
from cross_backend.errors import UnsupportedError
from cross_backend.tensors import TensorSpec

_DTYPES = {
    *("bool", "float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
}
"""Types that NumPy has by the same name."""


def describe(path: Path) -> Artifact:
    """Read it; see :attr:`ForeignFiles.describe`."""
    graph = read_graph(path)
    inputs, outputs = (
        tuple(_spec(path, graph.names[index], graph.tensors[index]) for index in indices)
        for indices in (graph.inputs, graph.outputs)
    )
    return artifact_of(path, "litert", inputs, outputs)


def _spec(path: Path, name: str, tensor: Tensor) -> TensorSpec:
    if tensor.dtype not in _DTYPES:
        raise UnsupportedError(f"{path.name}: {name!r} is {tensor.dtype}, which NumPy has not.")
    return TensorSpec(name, tensor.dtype, tensor.shape)
