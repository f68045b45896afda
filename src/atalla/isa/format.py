"""Format: the records of a blob and their fields, its sections, and how much of anything it holds at most.

``docs/atalla/blob.md`` describes each. History of the format:
    1.0  sections STRT OPER TENS INSN ATTR IOTB HOST META CNST, and where they are needed STAT SYMS
    1.1  operations RESIZE2D, SCATTER, SAMPLE2D; REDUCE by MEDIAN; steps LOG2, LOG10
    1.2  operations QGEMM, QCONV2D, QDWCONV2D; layout QUADS; steps DEQUANTIZE, QUANTIZE; POOL2D of int8 by MAX; GATHER
         by uint8
    1.3  operations BGEMM, BCONV2D; layout PAIRS
    1.4  REDUCE of int8 by SUM
    1.5  weights of CONV2D_WINO of 16 places
    1.6  weights of CONV2D_WINO of 25 places, with stride 2
    1.7  SCATTER changes a state in place
"""

from __future__ import annotations

import mmap
import struct
from enum import IntEnum
from typing import TypeAlias


class Record:
    """A record: its fields, each a code of ``struct``, in order and without gaps, little-endian."""

    def __init__(self, **fields: str) -> None:
        self.fields = fields
        self.form = form = struct.Struct("<" + "".join(fields.values()))
        self.size, self.pack, self.unpack_from, self.iter_unpack = (
            form.size,
            form.pack,
            form.unpack_from,
            form.iter_unpack,
        )

    def at(self, field: str) -> int:
        """Return where a field begins."""
        names = list(self.fields)
        return struct.calcsize("<" + "".join(self.fields[name] for name in names[: names.index(field)]))


MAGIC = b"ATLB\r\n\x1a\n"
MAJOR, MINOR = 1, 7
ENDIAN = 0x01020304
NOTHING = 0xFFFFFFFF
"""The number of what is absent."""
PAGE = 4096
"""Alignment of CNST, so that it can be mapped."""
LINE = 64
"""Bytes of a line of the cache, and of the widest vector: what storages are aligned to."""
REQUIRED = (b"STRT", b"OPER", b"TENS", b"INSN", b"ATTR", b"IOTB", b"HOST", b"CNST")
OPTIONAL = (b"STAT", b"SYMS")
"""Those that a loader knows, and that need not be there."""
Bytes: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""What a blob may lie in."""

MOST_DIMS = 8
MOST_SOURCES = 8
"""Of an instruction that a kernel runs."""
MOST_STEPS = 40
"""Of an EW."""
MOST_SECTIONS = 64
MOST_ROWS = 1 << 20
"""Tensors, instructions, calls; rows of STAT."""
MOST_ATTRIBUTE = 1 << 20
"""Sides, strides, padding and dilation of a window; groups."""
MOST_FILTER_ROWS = 64
"""Of a DWCONV2D."""
MOST_DEPTH = 1 << 16
"""Products that QGEMM and QCONV2D add, whose sums are int32, and those of bfloat16."""
MOST_TAPS = 512
"""Of a QDWCONV2D: kernels may add its products as float32, which is exact so far."""
MOST_SCALE = 1 << 20
"""Of a RESIZE2D; one that is not 0 is at least as small a part of 1."""
MOST_FACTOR = 1 << 20
"""Of a symbol."""
MOST_BYTES = 1 << 40
"""Sizes, dims, strides, and all numbers that are worked out of symbols."""

HEADER = Record(
    magic="8s", major="H", minor="H", endian="I", sections="I", features="I", bytes="Q", arena="Q", state="Q", crc="I",
    zeros="12x",
)  # fmt: skip
"""Of a file."""
SECTION = Record(name="4s", required="I", offset="Q", bytes="Q", align="I", crc="I")
TENSOR = Record(
    dtype="B", rank="B", space="B", layout="B", root="I", offset="q", bytes="Q", place="q", dims="8q", strides="8q",
    name="I", zero="I",
)  # fmt: skip
"""``root``: its own number where it is its own storage; ``offset`` and strides count elements."""
INSTRUCTION = Record(
    op="H", sources="H", dst="I", first_source="I", first_word="I", words="I", node="I", line="I", zero="I"
)
"""``first_source`` in OPER, ``first_word`` in ATTR; ``node`` and ``line`` are strings."""
STEP = Record(code="B", b="B", c="B", zero="B", a="i")
"""A step of EW: a word of ATTR."""
OUTPUT = Record(kind="I", tensor="I", value="q")
"""Of IOTB, behind the numbers of inputs and of outputs; inputs are of kind TENSOR."""
CALL = Record(name="I", arguments="I", first_output="I", outputs="I")
INITIAL = Record(to="Q", start="Q", bytes="Q")
"""What the state holds at first: where in the state, where in CNST."""
SYMBOLS = Record(symbols="I", nodes="I", guards="I", patches="I")
"""How many rows of each follow."""
SYMBOL = Record(name="I", zero="I", least="q", most="q", input="I", dim="I", factor="q", summand="q")
NODE = Record(kind="I", zero="I", a="q", b="q")
GUARD = Record(node="I", zero="I", least="q", most="q")
PATCH = Record(kind="I", row="I", field="I", node="I")


class OutputKind(IntEnum):
    """What an output is; of all but TENSOR the value stands in the blob."""

    TENSOR = 0
    NONE = 1
    INT = 2
    FLOAT = 3
    """The value is its bits."""
    BOOL = 4


class NodeKind(IntEnum):
    """What a number that is worked out of symbols is made of; ``a`` and ``b`` are numbers of earlier nodes."""

    CONST = 0
    """The number ``a`` itself."""
    SYMBOL = 1
    """Symbol ``a``."""
    ADD = 2
    MUL = 3
    FLOOR_DIV = 4
    """By at least 1."""
    MOD = 5
    """By at least 1; never below zero."""
    MIN = 6
    MAX = 7


class PatchKind(IntEnum):
    """Where a number goes that is worked out of symbols."""

    TENSOR = 0
    """Field 0 of a row of TENS is the offset, 1 to 8 are dims, 9 to 16 strides."""
    WORD = 1
    """An attribute."""
    OUTPUT = 2
    """The value of an output that is an int."""
