"""Blob: what the compiler writes and the driver runs, as values and as bytes.

The bytes, all words being little-endian and of 32 bits (``reader.py`` and ``csrc/blob.c`` read them):

    magic (8 bytes), version, CRC-32 of all that follows
    how many: tensors, instructions, inputs, outputs, floats of constants, floats of memory
    tensors       rows, columns, place
    instructions  operation, result, three sources
    inputs        number of a tensor each
    outputs       number of a tensor each
    constants     float32; they come first in the chip's memory

Raise ``VERSION`` whenever an old reader would misread new bytes; say here what changed.
    1  the first
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

MAGIC = b"MYCHIP__"
VERSION = 1
MEMORY_FLOATS = 1 << 26
"""256 MiB: what the chip has."""
NONE = 0xFFFFFFFF
"""No operand."""
COUNTS = struct.Struct("<6I")
"""How many tensors, instructions, inputs, outputs, floats of constants, floats of memory."""


class Op(IntEnum):
    """What the chip can do; numbers stay what they are once blobs were given to somebody."""

    LINEAR = 1  # x · weightᵀ + bias; no bias is NONE
    RELU = 2
    ADD = 3
    MUL = 4


SOURCES = {Op.LINEAR: (2, 3), Op.RELU: (1, 1), Op.ADD: (2, 2), Op.MUL: (2, 2)}
"""Fewest and most sources."""


@dataclass(frozen=True)
class Tensor:
    """A matrix in the chip's memory; what has more dims is seen as rows of its last one."""

    rows: int
    columns: int
    place: int
    """In floats, from where memory begins."""

    @property
    def end(self) -> int:
        """Where the next tensor may begin."""
        return self.place + self.rows * self.columns


@dataclass(frozen=True)
class Instruction:
    """One operation."""

    op: int
    """Of :class:`Op`, once it was checked."""
    result: int
    """Number of a tensor."""
    sources: tuple[int, ...]
    """Numbers of three tensors, or ``NONE``."""


@dataclass(frozen=True)
class Blob:
    """A whole program."""

    tensors: tuple[Tensor, ...]
    instructions: tuple[Instruction, ...]
    inputs: tuple[int, ...]
    """Numbers of tensors, in the caller's order."""
    outputs: tuple[int, ...]
    constants: NDArray[np.float32]
    """What memory begins with."""
    memory: int
    """Floats that a run needs, constants included."""


def write(blob: Blob) -> bytes:
    """Return the bytes."""
    words = [
        *(word for one in blob.tensors for word in (one.rows, one.columns, one.place)),
        *(word for one in blob.instructions for word in (one.op, one.result, *one.sources)),
        *(*blob.inputs, *blob.outputs),
    ]
    counts = [len(part) for part in (blob.tensors, blob.instructions, blob.inputs, blob.outputs, blob.constants)]
    body = COUNTS.pack(*counts, blob.memory) + np.array(words, "<u4").tobytes() + blob.constants.astype("<f4").tobytes()
    return MAGIC + struct.pack("<II", VERSION, zlib.crc32(body)) + body
