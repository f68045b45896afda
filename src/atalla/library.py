"""Library: the C kernels, opened by ctypes, and the structures of ``csrc/atalla.h``."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from pathlib import Path

from atalla.errors import KernelError

ABI_VERSION = 3
LIBRARY = "libatalla" + {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
"""Name of its file."""


class CTensor(ctypes.Structure):
    """``atalla_tensor``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("dtype", ctypes.c_uint32),
        ("rank", ctypes.c_uint32),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("data", ctypes.c_void_p),
    )


class CError(ctypes.Structure):
    """``atalla_error``."""

    _fields_ = (("struct_size", ctypes.c_size_t), ("status", ctypes.c_int), ("text", ctypes.c_char * 256))


HOST = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.POINTER(CTensor), ctypes.c_size_t, ctypes.c_size_t
)


AFTER = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)
"""``atalla_after``."""


class COptions(ctypes.Structure):
    """``atalla_options``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("threads", ctypes.c_uint32),
        ("isa", ctypes.c_char_p),
        ("host", HOST),
        ("user", ctypes.c_void_p),
        ("profile", ctypes.c_int),
        ("state", ctypes.c_void_p),
        ("hardware", ctypes.c_void_p),
        ("unit", ctypes.c_void_p),
        ("device_flags", ctypes.c_uint32),
        ("after", AFTER),
        ("after_user", ctypes.c_void_p),
    )


class CInfo(ctypes.Structure):
    """``atalla_info``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("inputs", ctypes.c_uint32),
        ("outputs", ctypes.c_uint32),
        ("instructions", ctypes.c_uint32),
        ("tensors", ctypes.c_uint32),
        ("calls", ctypes.c_uint32),
        ("arena_bytes", ctypes.c_uint64),
        ("constant_bytes", ctypes.c_uint64),
        ("state_bytes", ctypes.c_uint64),
        ("symbols", ctypes.c_uint32),
    )


class CPlanning(ctypes.Structure):
    """``atalla_planning``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("count", ctypes.c_size_t),
        ("size", ctypes.POINTER(ctypes.c_uint64)),
        ("first", ctypes.POINTER(ctypes.c_uint32)),
        ("last", ctypes.POINTER(ctypes.c_uint32)),
        ("align", ctypes.c_uint64),
        ("nodes", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("offset", ctypes.POINTER(ctypes.c_uint64)),
        ("peak", ctypes.c_uint64),
        ("bound", ctypes.c_uint64),
        ("searched", ctypes.c_uint64),
    )


BAD_INDEX = 3
"""The status of an index that is out of its table."""
BAD_SHAPE = 7
"""The status of inputs that the program does not take."""
BUSY = 8
"""The status of a call while another one of the same context is under way."""
ZERO_DIVISOR = 9
"""The status of a whole number that is divided by zero."""
TOO_SMALL = 10
"""The status of a program that does not fit into the device."""
OTHER_EDGES = 11
"""The status of another matrix unit that takes other cycles than the device counts."""


def library_path() -> Path:
    """Return where the library lies: where ``ATALLA_LIBRARY`` says, else beside this file."""
    return Path(os.environ.get("ATALLA_LIBRARY") or Path(__file__).with_name(LIBRARY))


def were_built() -> bool:
    """Whether there should be a library: ``ATALLA_LIBRARY`` names one, or it lies beside this file."""
    return bool(os.environ.get("ATALLA_LIBRARY")) or library_path().exists()


@functools.cache
def library() -> ctypes.CDLL:
    """Open the library.

    Raises:
        KernelError: it is not there, cannot be opened, or is of another version.
    """
    path = library_path()
    if not path.exists():
        raise KernelError(0, f"the C kernels are not there ({path}): build them with 'python -m atalla.build'")
    try:
        found = ctypes.CDLL(str(path))
        found.atalla_version.restype = ctypes.c_uint32
        found.atalla_isa.restype = ctypes.c_char_p
        found.atalla_times.restype = ctypes.c_size_t
    except (OSError, AttributeError) as error:
        raise KernelError(0, f"the C kernels are broken: {error}; 'python -m atalla.build' builds them") from error
    if found.atalla_version() != ABI_VERSION:
        version = f"version {found.atalla_version()} of the ABI; this package needs {ABI_VERSION}"
        raise KernelError(0, f"{path} has {version}: 'python -m atalla.build' builds it again")
    found.atalla_arena.restype = ctypes.c_void_p
    return found


def new_error() -> CError:
    """Return room for an error."""
    return CError(struct_size=ctypes.sizeof(CError))
