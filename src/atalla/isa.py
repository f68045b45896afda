"""Instruction set: element types, memory spaces, layouts, operations with their attributes, and element-wise steps.

Numbers are part of the blob format: they are never reused, and new ones are added at the end.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum


class Dtype(IntEnum):
    """Element types."""

    F32 = 1
    F64 = 2
    F16 = 3
    BF16 = 4
    I8 = 5
    U8 = 6
    I16 = 7
    I32 = 8
    I64 = 9
    BOOL = 10

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return _SIZES[self]

    @property
    def is_float(self) -> bool:
        """Whether it holds fractions."""
        return self <= Dtype.BF16


_SIZES = {
    Dtype.F32: 4, Dtype.F64: 8, Dtype.F16: 2, Dtype.BF16: 2, Dtype.I8: 1, Dtype.U8: 1, Dtype.I16: 2, Dtype.I32: 4,
    Dtype.I64: 8, Dtype.BOOL: 1,
}  # fmt: skip


class Space(IntEnum):
    """Where a tensor's elements are."""

    INPUT = 1
    """Given by the caller, for the time of a run."""
    OUTPUT = 2
    """Of the caller, too."""
    CONST = 3
    """In the blob: never written."""
    ARENA = 4
    """In the one block of memory that a loaded blob needs to run."""
    STATE = 5
    """Kept from run to run."""


class Layout(IntEnum):
    """How the elements of a tensor lie in its space."""

    STRIDED = 0
    """As the strides say."""
    PANELS = 1
    """Weights of GEMM and CONV2D, ``[N, taps, K]``: panels of :data:`PANEL` columns, each ``[taps][K][PANEL]``; the
    last one filled up with zeros."""
    DEPTHWISE = 2
    """Weights of DWCONV2D, ``[C, taps]``: ``[taps][C]``."""
    WINOGRAD = 3
    """Weights of CONV2D_WINO, ``[N, 36, K]``, transformed: for each of the 36 places the panels of a GEMM."""


FEW_CHANNELS = 4
"""A CONV2D of one group with no more channels takes its image however it lies; others want the channels innermost."""
PANEL = 16
"""Columns of a panel: two vectors of AVX2, four of SSE2 or NEON."""


class Op(IntEnum):
    """Operations of the accelerator. Operands are ``dst ← src…``; all are strided unless a layout is named."""

    END = 0
    """The last instruction of a program."""
    CALL_HOST = 1
    """Call back into the host: an operator that the accelerator lacks."""
    COPY = 2
    """``dst = src``, converted to the element type of dst."""
    FILL = 3
    """``dst = value`` everywhere: ``whole`` where dst holds whole numbers."""
    IOTA = 4
    """``dst[i] = start + i · step``, one dim."""
    GATHER = 5
    """``dst[i…, r…] = table[index[i…], r…]``; an index out of bounds ends the run."""
    EW = 6
    """Element-wise: a chain of steps, see :class:`Step`."""
    GEMM = 7
    """``dst[m…, n] = act(Σₖ src[m…, k] · weight[n, 0, k] + bias[n] (+ residual))``, weight in PANELS."""
    BMM = 8
    """``dst[b…, m, n] = scale · Σₖ a[b…, m, k] · b[b…, k, n]``."""
    CONV2D = 9
    """NCHW by name, any strides; weight in PANELS for each group."""
    CONV2D_WINO = 10
    """The same for 3 × 3, stride 1, by Winograd's F(4 × 4, 3 × 3)."""
    DWCONV2D = 11
    """One filter a channel, weight in DEPTHWISE."""
    POOL2D = 12
    """Largest or mean of windows."""
    REDUCE = 13
    """Over the dims of a mask."""
    SOFTMAX = 14
    """Along an axis."""
    NORM = 15
    """``(x − mean) / √(var + eps)``, or ``x / √(mean(x²) + eps)``, over the last dims; ``· weight + bias``."""
    ATTENTION = 16
    """``softmax(scale · q kᵀ + mask) v`` for ``[B, H, L, D]``, without the scores in memory."""
    CUMSUM = 17
    """Running sum along an axis."""


class Act(IntEnum):
    """What happens to the results of GEMM, CONV2D, CONV2D_WINO and DWCONV2D before they are stored."""

    NONE = 0
    RELU = 1
    CLAMP = 2
    """Between the attributes ``low`` and ``high``."""
    HARDSWISH = 3
    HARDSIGMOID = 4
    SIGMOID = 5
    SILU = 6
    GELU = 7
    """With the error function."""
    GELU_TANH = 8
    TANH = 9


class Pool(IntEnum):
    """Kinds of POOL2D."""

    MAX = 0
    MEAN = 1
    """Of what lies inside the input."""
    MEAN_PADDED = 2
    """Padding counts as zeros."""


class Reduce(IntEnum):
    """Kinds of REDUCE."""

    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    PROD = 4
    ALL = 5
    ANY = 6
    ARGMAX = 7
    ARGMIN = 8
    VAR = 9
    """The attribute ``correction`` is subtracted from the count."""


class Norm(IntEnum):
    """Kinds of NORM."""

    LAYER = 0
    RMS = 1


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


def number_of(bits: int) -> float:
    """Return the float32 of these bits."""
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


class Verdict(IntEnum):
    """What a loader finds wrong with bytes; the first of them, in the order in which it looks."""

    SOUND = 0
    SIZE = 100
    """Shorter than a header, or not as long as the header says."""
    MAGIC = 101
    """Not the beginning of a blob."""
    ENDIAN = 102
    """Written for the other order of bytes."""
    VERSION = 103
    """Another major version, or features that this reader does not know."""
    HEADER = 104
    """The header's or the table's CRC is wrong, or a size is beyond its cap."""
    SECTION = 105
    """A section is out of the file, not aligned, double, missing, or unknown and required."""
    CHECKSUM = 106
    """A section's CRC is wrong."""
    STRINGS = 107
    """Strings do not end where they should, or are no UTF-8."""
    TENSOR = 108
    """An unknown element type, space or layout, a root that is none, a dim below zero."""
    BOUNDS = 109
    """A tensor reaches out of its storage, or a storage out of its space."""
    LISTS = 110
    """Inputs, outputs, operands or calls of the host that are not there."""
    INSTRUCTION = 111
    """An unknown operation, or one with too few or too many sources or attributes; no END."""
    ATTRIBUTE = 112
    """An attribute without a meaning."""
    OPERANDS = 113
    """Element types, shapes, strides or layouts that the operation does not take."""
    WRITE = 114
    """It writes what must not be written."""
    READ = 115
    """It reads what was not written before."""
    OVERLAP = 116
    """Two storages that are alive at once share memory."""
    SYMBOLS = 117
    """Symbols, what is worked out of them, or where it goes: not there, or not what stands in the tables."""
    HOST = 118
    """It calls an operator that only a trusted blob may call, see ``hosted``."""


class Node(IntEnum):
    """What a dim that is no number is made of; ``a`` and ``b`` are numbers of earlier nodes."""

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


class Patch(IntEnum):
    """Where a number goes that is worked out of symbols."""

    TENSOR = 0
    """Field 0 of a row of TENS is the offset, 1 to 8 are dims, 9 to 16 strides."""
    WORD = 1
    """An attribute."""
    OUTPUT = 2
    """The value of an output that is an int."""


@dataclass(frozen=True)
class Shape:
    """What an operation takes."""

    sources: tuple[str, ...]
    """Names of its sources; one that ends with ``?`` may be absent; ``…`` at the end: any number."""
    attributes: tuple[str, ...] = ()
    """Names of its attributes, whole numbers; one that ends with ``.`` is a float64; ``…`` at the end: any number."""


_CONV = (
    *("stride_h", "stride_w", "top", "left", "bottom", "right", "dilation_h", "dilation_w"),
    *("kernel_h", "kernel_w", "groups"),
)
_EPILOGUE = ("act", "low.", "high.")
OPS: dict[Op, Shape] = {
    Op.END: Shape(()),
    Op.CALL_HOST: Shape(("inputs…",), ("call", "outputs…")),
    Op.COPY: Shape(("src",)),
    Op.FILL: Shape((), ("value.", "whole")),
    Op.IOTA: Shape((), ("start.", "step.")),
    Op.GATHER: Shape(("table", "index")),
    Op.EW: Shape(("inputs…",), ("steps…",)),
    Op.GEMM: Shape(("src", "weight", "bias?", "residual?"), _EPILOGUE),
    Op.BMM: Shape(("a", "b"), ("scale.",)),
    Op.CONV2D: Shape(("src", "weight", "bias?", "residual?"), (*_CONV, *_EPILOGUE)),
    Op.CONV2D_WINO: Shape(("src", "weight", "bias?", "residual?"), (*_CONV, *_EPILOGUE)),
    Op.DWCONV2D: Shape(("src", "weight", "bias?", "residual?"), (*_CONV, *_EPILOGUE)),
    Op.POOL2D: Shape(("src",), ("kind", *_CONV[:10])),
    Op.REDUCE: Shape(("src",), ("kind", "dims", "correction.")),
    Op.SOFTMAX: Shape(("src",), ("axis", "log")),
    Op.NORM: Shape(("src", "weight?", "bias?"), ("kind", "dims", "eps.")),
    Op.ATTENTION: Shape(("q", "k", "v", "mask?"), ("causal", "scale.")),
    Op.CUMSUM: Shape(("src",), ("axis",)),
}
"""In the order of their numbers."""
