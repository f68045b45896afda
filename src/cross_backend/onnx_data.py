"""Which other files an ONNX file reads, found in its protobuf without the package ``onnx``.

The payload's digest is compared with the manifest when an artifact is opened. Weights in another file are in no digest,
so a payload that reads one is refused. Field numbers are those of ``onnx.proto3`` (ONNX 1.23).
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path

from cross_backend.errors import ArtifactError
from cross_backend.foreign_files import open_regular

SUFFIX = ".onnx"
_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _TENSOR, _SPARSE, _FUNCTION, _TRAINING = range(8)
_FIELDS: Mapping[int, Mapping[int, int]] = {
    _MODEL: {7: _GRAPH, 20: _TRAINING, 25: _FUNCTION},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _TENSOR: {},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _TRAINING: {1: _GRAPH, 2: _GRAPH},
}
"""Message → field → message that it holds."""
_OPERATOR, _EXTERNAL_DATA, _DATA_LOCATION = 4, 13, 14
_READS_A_FILE = b"EPContext"
"""Operator that holds a compiled program, or the name of a file with one."""
_MAX_DEPTH = 100
_VARINT, _BYTES, _FIXED = 0, 2, {1: 8, 5: 4}


def require_whole(path: Path) -> None:
    """Refuse an ONNX file that reads another file.

    Raises:
        ArtifactError: it does, or it is damaged.
    """
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = next(_findings(data, 0, len(data), _MODEL, 0), None)
    except (ValueError, IndexError) as error:
        raise ArtifactError(f"{path} is damaged or not an ONNX file ({error}).") from error
    if found is not None:
        raise ArtifactError(
            f"{path} {found}, which no digest covers. Export the model again; artifacts hold their weights themselves."
        )


def _findings(data: mmap.mmap, at: int, end: int, message: int, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"its messages are nested more than {_MAX_DEPTH} deep")
    for field, value, start, until in _fields(data, at, end):
        inner = _FIELDS[message].get(field)
        if inner is not None and value is None:
            yield from _findings(data, start, until, inner, depth + 1)
        elif message == _TENSOR and (field == _EXTERNAL_DATA or (field == _DATA_LOCATION and value)):
            yield "keeps weights in another file"
        elif message == _NODE and field == _OPERATOR and data[start:until] == _READS_A_FILE:
            yield "holds a program that a vendor compiled, or the name of a file with one"


def _fields(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int | None, int, int]]:
    """Yield number, value and place of each field of a message; only varints have a value."""
    while at < end:
        key, at = _varint(data, at, end)
        wire, value, length = key & 7, None, 0
        if wire == _VARINT:
            value, at = _varint(data, at, end)
        elif wire == _BYTES:
            length, at = _varint(data, at, end)
        elif wire in _FIXED:
            length = _FIXED[wire]
        else:
            raise ValueError(f"wire type {wire} is unknown")
        if at + length > end:
            raise ValueError("a field is longer than its message")
        yield key >> 3, value, at, at + length
        at += length


def _varint(data: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    """Return a number of at most 64 bits, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise ValueError("it ends within a field")
        byte = data[at]
        value, at = value | (byte & 0x7F) << shift, at + 1
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise ValueError("a number has more than 64 bits")
