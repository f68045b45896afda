"""Frames: tensors as the bytes that a page reads and writes; ``channel.js`` is the other side."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.errors import RunError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np

_HEAD = struct.Struct("<I")
_KINDS = frozenset(
    ("bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
"""Element types that JavaScript has arrays for; little-endian on both sides."""


def pack(arrays: Sequence[np.ndarray[Any, Any]]) -> bytes:
    """Return a header's length, the header, then each array's bytes, each part at a multiple of eight.

    Raises:
        UnsupportedError: an element type that no array of JavaScript has.
    """
    for array in arrays:
        if str(array.dtype) not in _KINDS:
            raise UnsupportedError(f"a browser has no arrays of {array.dtype}. Convert it inside of the model.")
    rows = [{"type": str(a.dtype), "dims": list(a.shape), "size": a.nbytes} for a in arrays]
    header = json.dumps(rows).encode()
    parts = [_HEAD.pack(len(header)) + header, *(array.tobytes() for array in arrays)]
    return b"".join(part + bytes(-len(part) % 8) for part in parts)


def unpack(frame: bytes) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the arrays of a frame, as views of it.

    Raises:
        RunError: it is none.
    """
    import numpy as np

    try:
        (length,) = _HEAD.unpack_from(frame)
        rows = json.loads(frame[_HEAD.size : _HEAD.size + length])
        if not isinstance(rows, list):
            raise TypeError("no list of tensors")
        at, arrays = _HEAD.size + length, []
        for row in rows:
            at += -at % 8
            if row["type"] not in _KINDS:
                raise ValueError(f"no element type {row['type']!r}")
            count = math.prod(row["dims"])
            arrays.append(np.frombuffer(frame, row["type"], count, at).reshape(row["dims"]))
            at += row["size"]
    except (ValueError, KeyError, TypeError, struct.error) as error:
        raise RunError(f"the browser answered with something else than tensors ({error}).") from error
    return tuple(arrays)
