"""MNN's own objects: a session of a file, tensors of arrays, and what its callbacks tell of a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.backends._integers import to_int32
from cross_backend.errors import LoadError, RunError, failing_as
from cross_backend.records import Timing
from cross_backend.tensors import to_numpy

if TYPE_CHECKING:
    import numpy as np

_PRECISIONS = {"fp32": "high", "fp16": "low"}
_WINOGRAD_MEMORY_LEVEL, _SMALLER_TILES = 3, 1
"""A hint to a session. The default's tiles of Winograd's convolution cost two digits: ResNet-50 deviates by 3e-3 of its
largest output; with smaller ones, which are as fast, by 2e-5."""


def open_file(path: Path, precision: str, threads: int | None) -> tuple[Any, Any]:
    """Return an interpreter of a file, and a session on the processor.

    Args:
        path: of the file.
        precision: ``fp32`` or ``fp16``.
        threads: of the session; None for MNN's own choice.

    Raises:
        LoadError: the file is damaged.
    """
    import MNN

    with failing_as(LoadError, f"MNN cannot load {path.name}"):
        interpreter = MNN.Interpreter(str(path))
        if precision == "fp32":
            interpreter.setSessionHint(_WINOGRAD_MEMORY_LEVEL, _SMALLER_TILES)
        settings: dict[str, Any] = {"backend": "CPU", "precision": _PRECISIONS[precision]}
        if threads is not None:
            settings["numThread"] = threads
        session = interpreter.createSession(settings)
        if session is None:
            raise LoadError(f"MNN cannot make a session of {path.name}; its output says why.")
    return interpreter, session


def host_of(tensor: Any, name: str, x: Any) -> tuple[Any, np.ndarray[Any, Any]]:
    """Return a tensor of an array, in the type that a session takes, and the array, which the tensor does not keep.

    Args:
        tensor: the session's own.
        name: of the input, for errors.
        x: NumPy array or torch tensor.

    Raises:
        RunError: a whole number does not fit, or MNN takes another type.
    """
    import MNN
    import numpy as np

    array, wanted = to_numpy(x), np.asarray(tensor.getNumpyData()).dtype
    kinds = {"float32": MNN.Halide_Type_Float, "int32": MNN.Halide_Type_Int, "uint8": MNN.Halide_Type_Uint8}
    if str(wanted) not in kinds or (wanted.kind != "f" and array.dtype.kind == "f"):
        raise RunError(f"input {name!r} is {array.dtype}, but MNN takes it as {wanted}.")
    if wanted == np.int32 and array.dtype.kind in "iu":
        array = to_int32(name, array)
    array = np.array(array, wanted, order="C")
    return MNN.Tensor(array.shape, kinds[str(wanted)], array, MNN.Tensor_DimensionType_Caffe), array


def record(interpreter: Any, session: Any, inputs: Sequence[tuple[Any, Any, Any]]) -> list[Timing]:
    """Run once, with MNN's callbacks around each operator.

    Args:
        interpreter: of a file.
        session: of it.
        inputs: its tensor, the tensor that is copied there, and the array behind it, of each input.

    Raises:
        RunError: MNN failed.
    """
    rows: list[Timing] = []
    began_ns = 0

    def before(_tensors: Any, _operator: Any) -> bool:
        nonlocal began_ns
        began_ns = time.perf_counter_ns()
        return True

    def after(_tensors: Any, operator: Any) -> bool:
        rows.append(Timing(operator.getType(), "operator", 1, (time.perf_counter_ns() - began_ns) / 1e6))
        return True

    for tensor, host, _ in inputs:
        tensor.copyFrom(host)
    status = interpreter.runSessionWithCallBackInfo(session, before, after)
    if status:
        raise RunError(f"MNN failed with status {status}.")
    return rows
