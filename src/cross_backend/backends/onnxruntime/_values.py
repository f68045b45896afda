"""Calls with ONNX Runtime's own tensors: for state, and for bfloat16, which its package converts from no NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cross_backend.tensors import BFLOAT16, Tensors, dtype_of

if TYPE_CHECKING:
    import numpy as np

_BFLOAT16 = 16
"""``TensorProto.BFLOAT16``."""


class Output:
    """An output in the runtime's memory; reading it as an array copies it."""

    def __init__(self, value: Any, dtype: str = BFLOAT16) -> None:
        self._value = value
        self.shape = tuple(value.shape())
        """Extents."""
        self.dtype = dtype_of(dtype)
        """Element type."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Copy the elements."""
        import numpy as np

        size = self._value.tensor_size_in_bytes()
        data = ctypes.string_at(self._value.data_ptr(), size) if size else b""
        array = np.frombuffer(data, self.dtype).reshape(self.shape)
        return array if dtype is None else array.astype(dtype)


def bind(session: Any, feed: Mapping[str, np.ndarray[Any, Any]]) -> Callable[[], Tensors]:
    """Return a call of an open session on inputs, by their names."""
    given = {name: value_of(array) for name, array in feed.items()}

    def run() -> Tensors:
        return [_array(value) for value in session.run_with_ort_values(None, given)]

    return run


def value_of(array: np.ndarray[Any, Any]) -> Any:
    """Return a tensor of the runtime; on the processor it is the array's own memory."""
    import numpy as np
    from onnxruntime import OrtValue

    if array.dtype.name == BFLOAT16:
        return OrtValue.ortvalue_from_numpy_with_onnx_type(array.view(np.uint16), _BFLOAT16)
    return OrtValue.ortvalue_from_numpy(array)


def _array(value: Any) -> Any:
    return Output(value) if value.element_type() == _BFLOAT16 else value.numpy()
