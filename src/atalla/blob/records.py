"""Records: what a blob is made of, byte by byte; ``docs/atalla/blob.md`` tells of each."""

from __future__ import annotations

import mmap
import struct
from typing import TypeAlias

MAGIC = b"ATLB\r\n\x1a\n"
MAJOR, MINOR = 1, 0
ENDIAN = 0x01020304
NOTHING = 0xFFFFFFFF
"""The number of what is absent."""
MOST_DIMS = 8
PAGE = 4096
"""Alignment of CNST, so that it can be mapped."""
HEADER = struct.Struct("<8sHHIIIQQQI12x")
"""Magic, major, minor, ENDIAN, sections, features, bytes of the file, of the arena, of the state, CRC-32."""
SECTION = struct.Struct("<4sIQQII")
"""Name, 1 if required, offset, bytes, alignment, CRC-32."""
TENSOR = struct.Struct("<BBBBIqQq8q8qII")
"""Element type, rank, space, layout, root, offset in elements, bytes, place, dims, strides, name, zero."""
INSTRUCTION = struct.Struct("<HHIIIIIII")
"""Operation, sources, dst, first source in OPER, first word in ATTR, words, node, line, zero."""
OUTPUT = struct.Struct("<IIq")
"""Kind, tensor, value."""
CALL = struct.Struct("<IIII")
"""Name of the operator, its arguments, first output in OPER, outputs."""
INITIAL = struct.Struct("<QQQ")
"""Place in the state, place in CNST, bytes."""
SYMBOLS = struct.Struct("<IIII")
"""Symbols, nodes, guards, patches."""
SYMBOL = struct.Struct("<IIqqIIqq")
"""Name, zero, least, most, input, dim, factor, summand."""
NODE = struct.Struct("<IIqq")
"""Kind, zero, a, b."""
GUARD = struct.Struct("<IIqq")
"""Node, zero, least, most."""
PATCH = struct.Struct("<IIII")
"""Kind, row, field, node."""
REQUIRED = (b"STRT", b"OPER", b"TENS", b"INSN", b"ATTR", b"IOTB", b"HOST", b"CNST")
OPTIONAL = (b"STAT", b"SYMS")
"""Those that a loader knows, and that need not be there."""
Bytes: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""What a blob may lie in."""
KINDS = {"tensor": 0, "none": 1, "int": 2, "float": 3, "bool": 4}
"""Of an output."""


def section_rows(data: Bytes) -> list[tuple[bytes, int, int, int, int, int]]:
    """Return the table of sections of a blob whose header is sound."""
    (count,) = struct.unpack_from("<I", data, 16)
    return [SECTION.unpack_from(data, HEADER.size + SECTION.size * i) for i in range(count)]
