"""An open ``.tflite`` file: inputs are copied into the interpreter's memory at bind, and each call only runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cross_backend.backend import Session
from cross_backend.backends._integers import to_int32
from cross_backend.backends.litert._engine import open_file
from cross_backend.backends.litert._file import TfliteGraph, read_graph
from cross_backend.errors import LoadError
from cross_backend.tensors import Tensors, TensorSpec, dtype_of, to_numpy

if TYPE_CHECKING:
    import numpy as np

TAKEN = {"int64": "int32"}
"""Type of a program's input → the narrower one of the file, which values are checked for."""
GIVEN = {"int64": "int32", "bfloat16": "float32"}
"""Type of a program's output → the other one that the file may have."""


class _Output:
    """An output in the interpreter's memory, which the next call overwrites; reading it as an array copies it."""

    def __init__(self, interpreter: Any, index: int, spec: TensorSpec) -> None:
        self._interpreter, self._index = interpreter, index
        self.shape = tuple(map(int, spec.shape))
        """Extents."""
        self.dtype = dtype_of(spec.dtype.replace("bfloat16", "float32"))
        """Element type."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Copy it in the program's type."""
        found: np.ndarray[Any, Any] = self._interpreter.get_tensor(self._index)
        return found.astype(dtype or self.dtype, copy=False)


class LiteRtSession(Session):
    """One interpreter."""

    def _open(self) -> None:
        path = self.artifact.payload_path
        graph = read_graph(path)
        _check_ports(path.name, graph, self.inputs, self.outputs)
        self._interpreter = open_file(path, self.options["threads"])
        self._taken, self._given = graph.inputs, graph.outputs
        self._bound: object = None
        """The binding whose inputs lie in the interpreter's memory."""

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        details = {row["index"]: row["dtype"] for row in self._interpreter.get_input_details()}
        arrays = [
            _as_taken(spec, x, details[index]) for spec, x, index in zip(self.inputs, inputs, self._taken, strict=True)
        ]
        interpreter, invoke = self._interpreter, self._interpreter.invoke
        outputs = [_Output(interpreter, index, spec) for index, spec in zip(self._given, self.outputs, strict=True)]
        self._take(arrays)

        def run() -> Tensors:
            if self._bound is not arrays:  # another binding ran
                self._take(arrays)
            invoke()
            return outputs

        return run

    def _take(self, arrays: list[np.ndarray[Any, Any]]) -> None:
        """Copy a binding's inputs into the interpreter's memory, which keeps them from call to call."""
        self._bound = None
        for index, array in zip(self._taken, arrays, strict=True):
            self._interpreter.set_tensor(index, array)
        self._bound = arrays

    def _close(self) -> None:
        self._bound = None
        del self._interpreter

    _interpreter: Any


def _as_taken(spec: TensorSpec, x: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """Return a row-major copy in the type that the interpreter takes."""
    import numpy as np

    array = to_numpy(x)
    return (
        to_int32(spec.name, array) if spec.dtype == "int64" and dtype == np.int32 else np.array(array, dtype, order="C")
    )


def _check_ports(
    name: str, graph: TfliteGraph, inputs: tuple[TensorSpec, ...], outputs: tuple[TensorSpec, ...]
) -> None:
    """Compare a file with what its manifest says.

    Raises:
        LoadError: counts, types or shapes differ.
    """
    ports = ((inputs, graph.inputs, TAKEN), (outputs, graph.outputs, GIVEN))
    if all(len(specs) == len(places) for specs, places, _ in ports) and all(
        _fits(spec, graph, place, others)
        for specs, places, others in ports
        for spec, place in zip(specs, places, strict=True)
    ):
        return
    raise LoadError(f"{name} does not have the inputs and outputs that its manifest describes.")


def _fits(spec: TensorSpec, graph: TfliteGraph, place: int, others: dict[str, str]) -> bool:
    tensor = graph.tensors[place]
    same_type = tensor.dtype in {spec.dtype, others.get(spec.dtype)}
    return same_type and spec.shape == tensor.shape
