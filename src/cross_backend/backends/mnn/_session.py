"""An open ``.mnn`` file: MNN's tensors are made once at bind, and each call copies them in, as MNN's own loops do.

A session reuses the memory of its inputs while it runs: without that copy the second run would compute from what the
first one left there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cross_backend.backend import Session
from cross_backend.backends.mnn._convert import input_name, output_name
from cross_backend.backends.mnn._engine import host_of, open_file, record
from cross_backend.errors import LoadError, RunError
from cross_backend.records import Timing
from cross_backend.tensors import Tensors, TensorSpec, dtype_of

if TYPE_CHECKING:
    import numpy as np

_BACKENDS = 2
"""What ``getSessionInfo`` is asked for: where the session runs."""
PROCESSOR = {0, 13}
"""MNN's numbers of its backends for processors: the plain one, and the one that uses the processor's vector units."""


class _Output:
    """An output in the session's memory, which the next call overwrites; reading it as an array copies it."""

    def __init__(self, tensor: Any, spec: TensorSpec, shape: tuple[int, ...]) -> None:
        self._tensor, self.shape = tensor, shape
        self.dtype = dtype_of(spec.dtype)
        """Element type."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Copy it in the program's type."""
        import numpy as np

        array = np.array(self._tensor.getNumpyData())
        return array.reshape(self.shape).astype(dtype or self.dtype)


class MnnSession(Session):
    """One session of one interpreter; an input of another shape resizes it."""

    def _open(self) -> None:
        path = self.artifact.payload_path
        self._interpreter, self._session = open_file(path, self.options["precision"], self.options["threads"])
        read = self._interpreter.getSessionInputAll(self._session)
        given = self._interpreter.getSessionOutputAll(self._session)
        names = [input_name(i) for i in range(len(self.inputs))]
        self._read = {names.index(name): tensor for name, tensor in read.items() if name in names}
        """Place → tensor, of the inputs that the program reads."""
        absent = {output_name(i) for i in range(len(self.outputs))} - set(given)
        if absent or len(self._read) < len(read):
            raise LoadError(f"{path.name} does not have the inputs and outputs that its manifest describes.")
        self._given = [given[output_name(i)] for i in range(len(self.outputs))]
        self._shapes: list[tuple[int, ...]] = []

    def backend(self) -> int:
        """Return MNN's number of the backend on which the session runs."""
        return int(self._interpreter.getSessionInfo(self._session, _BACKENDS))

    def _resize(self, shapes: list[tuple[int, ...]]) -> None:
        """Make the session one of other shapes, where its own are others.

        Raises:
            RunError: MNN cannot take these.
        """
        if shapes == self._shapes:
            return
        if any(isinstance(n, str) for spec in self.inputs for n in spec.shape):
            for tensor, shape in zip(self._read.values(), shapes, strict=True):
                self._interpreter.resizeTensor(tensor, shape)
            self._interpreter.resizeSession(self._session)
        found = [tuple(tensor.getShape()) for tensor in self._read.values()]
        if found != shapes:
            raise RunError(f"MNN's session takes {found} where {shapes} was given.")
        self._shapes = shapes

    def _hosts(self, inputs: Tensors) -> list[tuple[Any, Any, Any]]:
        """Return of each input the session's tensor, resized, the tensor that is copied there, and its array."""
        self._resize([tuple(inputs[place].shape) for place in self._read])
        return [(tensor, *host_of(tensor, self.inputs[i].name, inputs[i])) for i, tensor in self._read.items()]

    def _bind(self, inputs: Tensors) -> Callable[[], Tensors]:
        hosts = self._hosts(inputs)
        copies = [(tensor.copyFrom, host, array) for tensor, host, array in hosts]
        shapes = self._shapes
        outputs = [
            _Output(tensor, spec, _shape(spec, tuple(tensor.getShape())))
            for tensor, spec in zip(self._given, self.outputs, strict=True)
        ]
        interpreter, session = self._interpreter, self._session

        def run() -> Tensors:
            if self._shapes is not shapes:  # another binding ran
                self._resize(shapes)
            for copy, host, _ in copies:
                copy(host)
            status = interpreter.runSession(session)
            if status:
                raise RunError(f"MNN failed with status {status}.")
            return outputs

        return run

    def recorded(self, inputs: Tensors, runs: int) -> list[list[Timing]]:
        """Run with MNN's callbacks around each operator; return the operators of each run.

        Raises:
            RunError: MNN failed.
        """
        hosts = self._hosts(inputs)
        return [record(self._interpreter, self._session, hosts) for _ in range(runs)]

    def _close(self) -> None:
        del self._session, self._read, self._given
        del self._interpreter

    _interpreter: Any
    _session: Any


def _shape(spec: TensorSpec, given: tuple[int, ...]) -> tuple[int, ...]:
    """Return the extents of an output: the program's, and MNN's where the program's are free.

    Raises:
        RunError: they contradict each other.
    """
    fixed = tuple(n for n in spec.shape if isinstance(n, int))
    if len(fixed) == len(spec.shape) and math.prod(fixed) == math.prod(given):
        return fixed
    if len(spec.shape) != len(given) or any(
        isinstance(n, int) and n != m for n, m in zip(spec.shape, given, strict=True)
    ):
        raise RunError(f"MNN returns {list(given)} for {spec.name!r}, which is {spec}.")
    return given
