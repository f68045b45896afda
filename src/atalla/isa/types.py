"""Element types, memory spaces, and layouts of tensors."""

from __future__ import annotations

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
    """Weights of DWCONV2D and QDWCONV2D, ``[C, taps]``: ``[taps][C]``."""
    WINOGRAD = 3
    """Weights of CONV2D_WINO, ``[N, places, K]``, transformed, 36 places, 25 or 16: for each the panels of a GEMM."""
    QUADS = 4
    """Weights of QGEMM and QCONV2D, int8, ``[N, taps, K]``: panels of :data:`PANEL` columns, each
    ``[⌈taps · K / 4⌉][PANEL][4]``; columns and depth filled up with zeros."""
    PAIRS = 5
    """Weights of BGEMM and BCONV2D, bfloat16, ``[N, taps, K]``: the same with two neighbours in depth for four."""


FEW_CHANNELS = 4
"""A CONV2D of one group with no more channels takes its image however it lies; others want the channels innermost."""
QUAD = 4
"""Neighbours in depth that lie together in QUADS: what one lane multiplies at once."""
PAIR = 2
"""The same in PAIRS."""
LANE = 4
"""Bytes of these neighbours, in either layout."""
WINOGRAD_TILES = {36: (4, 1), 25: (2, 2), 16: (2, 1)}
"""Places of weights in WINOGRAD → pixels a side of what a tile becomes, and the convolution's stride."""
PANEL = 16
"""Columns of a panel: two vectors of AVX2, four of SSE2 or NEON."""
