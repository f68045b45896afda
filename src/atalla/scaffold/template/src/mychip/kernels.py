"""Kernels: a blob run by the C driver (``csrc/driver.c``), through ctypes."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mychip.build import kernels_library
from mychip.errors import BlobError, BuildError
from mychip.reader import read

Array = NDArray[np.float32]
_HANDLE = ctypes.c_void_p


@functools.cache
def library() -> ctypes.CDLL:
    """Return the C library, which is built where that was not done.

    Raises:
        BuildError: it cannot be built or opened.
    """
    try:
        opened = ctypes.CDLL(str(kernels_library()), ctypes.RTLD_GLOBAL)  # the delegate finds its functions there
    except OSError as error:
        raise BuildError(f"the C library does not load: {error}") from error
    opened.mychip_open.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(_HANDLE))
    opened.mychip_open.restype = ctypes.c_char_p
    for name in ("mychip_write", "mychip_read"):
        getattr(opened, name).argtypes = (_HANDLE, ctypes.c_uint32, ctypes.c_void_p)
        getattr(opened, name).restype = None
    for name in ("mychip_run", "mychip_close"):
        getattr(opened, name).argtypes = (_HANDLE,)
        getattr(opened, name).restype = None
    return opened


class Kernels:
    """An executor."""

    def __init__(self, data: bytes) -> None:
        self._library, self._program = library(), _HANDLE()
        why = self._library.mychip_open(data, len(data), ctypes.byref(self._program))
        if why is not None:
            raise BlobError(why.decode())
        blob = read(data)
        self._inputs, self._outputs = (
            [(blob.tensors[number].rows, blob.tensors[number].columns) for number in numbers]
            for numbers in (blob.inputs, blob.outputs)
        )

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Return the outputs."""
        for i, (shape, given) in enumerate(zip(self._inputs, inputs, strict=True)):
            self._library.mychip_write(self._program, i, np.ascontiguousarray(given.reshape(shape), "f4").ctypes.data)
        self._library.mychip_run(self._program)
        outputs = [np.empty(shape, np.float32) for shape in self._outputs]
        for i, output in enumerate(outputs):
            self._library.mychip_read(self._program, i, output.ctypes.data)
        return outputs

    def __del__(self) -> None:
        if program := getattr(self, "_program", None):
            self._library.mychip_close(program)
