"""Steps of an EW chain: their numbers, and the kinds of their operands and of their value."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Step(IntEnum):
    """Steps of an EW chain. A value is a float32 or an int64; operands are numbers of earlier values.

    The chain's sources come first, in order, as float32 where their element type is a float, else as int64; each step
    makes one more value; the last one is stored, converted to the element type of dst.
    """

    FLOAT = 0
    """A constant: bits of a float32."""
    INT = 1
    """A constant: an int32."""
    TO_FLOAT = 2
    TO_INT = 3
    """Toward zero."""
    ADD = 4
    SUB = 5
    MUL = 6
    DIV = 7
    MIN = 8
    MAX = 9
    """Both give NaN if one is NaN."""
    POW = 10
    NEG = 11
    ABS = 12
    SQRT = 13
    RSQRT = 14
    RECIPROCAL = 15
    EXP = 16
    LOG = 17
    TANH = 18
    ERF = 19
    SIN = 20
    COS = 21
    SIGMOID = 22
    FLOOR = 23
    CEIL = 24
    ROUND = 25
    """Half to even."""
    TRUNC = 26
    RELU = 27
    HARDSWISH = 28
    HARDSIGMOID = 29
    SILU = 30
    GELU = 31
    GELU_TANH = 32
    EQ = 33
    NE = 34
    LT = 35
    LE = 36
    GT = 37
    GE = 38
    """Comparisons give the int64 1 or 0."""
    WHERE = 39
    """``a ? b : c``, a an int64."""
    AND = 40
    OR = 41
    XOR = 42
    """Bit by bit, of int64."""
    NOT = 43
    """``a == 0``."""
    FLOOR_DIV = 44
    REMAINDER = 45
    """With the sign of the divisor."""
    LOG1P = 46
    EXPM1 = 47
    SIGN = 48
    IS_NAN = 49
    BIT_NOT = 50
    LOG2 = 51
    LOG10 = 52
    DEQUANTIZE = 53
    """``(float32(a) − c) · b``."""
    QUANTIZE = 54
    """``round(a · b) + c``, half to even, between −128 and 127: an int8."""


@dataclass(frozen=True)
class StepSpec:
    """What a step takes and makes. Kinds: ``f`` float32, ``w`` int64, ``s`` either, the same wherever it stands."""

    operands: str
    """A letter for each."""
    value: str
    """One letter."""

    def takes(self, floats: Sequence[bool]) -> bool:
        """Whether operands, of each of which it is known whether it is a float32, are of these kinds."""
        pairs = list(zip(self.operands, floats, strict=True))
        same = {is_float for kind, is_float in pairs if kind == "s"}
        return len(same) < 2 and all(kind == "s" or is_float == (kind == "f") for kind, is_float in pairs)

    def is_float(self, floats: Sequence[bool]) -> bool:
        """Whether the value is a float32, where the operands are of the kinds that it takes."""
        return floats[self.operands.index("s")] if self.value == "s" else self.value == "f"


_KINDS = {
    "→f": "FLOAT",
    "→w": "INT",
    "w→f": "TO_FLOAT",
    "f→w": "TO_INT IS_NAN",
    "w→w": "NOT BIT_NOT",
    "s→s": "NEG ABS RELU SIGN",
    "f→f": "SQRT RSQRT RECIPROCAL EXP LOG LOG2 LOG10 LOG1P EXPM1 TANH ERF SIN COS SIGMOID FLOOR CEIL ROUND TRUNC "
    "HARDSWISH HARDSIGMOID SILU GELU GELU_TANH",
    "ff→f": "DIV POW",
    "ww→w": "AND OR XOR",
    "wff→f": "DEQUANTIZE",
    "fff→w": "QUANTIZE",
    "ss→s": "ADD SUB MUL MIN MAX FLOOR_DIV REMAINDER",
    "ss→w": "EQ NE LT LE GT GE",
    "wss→s": "WHERE",
}
STEPS = {Step[name]: StepSpec(*kinds.split("→")) for kinds, names in _KINDS.items() for name in names.split()}
"""Of every step."""


def float32_of(bits: int) -> float:
    """Return the float32 of these bits."""
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def bits_of_float32(value: float) -> int:
    """Return the bits of the nearest float32 as an int32."""
    if math.isinf(value) or math.isnan(value) or abs(value) <= 3.4028235677973366e38:
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    return bits_of_float32(math.copysign(math.inf, value))
