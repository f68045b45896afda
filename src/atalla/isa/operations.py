"""Operations of the accelerator: their numbers, kinds, sources and attributes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from atalla.isa.format import MOST_SOURCES


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
    """The same for 3 × 3, stride 1 or 2, by Winograd's; the weight's places say how, see :data:`WINOGRAD_TILES`."""
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
    RESIZE2D = 18
    """An image of another size, NCHW by name: of each pixel the nearest one of src, or four of them, interpolated.

    A place of dst is one of src, times the step of that dim: its own ``1 / scale``; where scale is 0, that of the
    sizes. Dims of one size are as they were."""
    SCATTER = 19
    """``dst = src``, then, one after the other, ``dst[index[i…], r…]`` becomes what it is with ``update[i…, r…]``; an
    index out of bounds ends the run."""
    SAMPLE2D = 20
    """An image where a grid says: ``dst[n, c, y, x]`` is ``src[n, c]`` at ``grid[n, y, x]``, whose two numbers go from
    −1 to 1 over the width and over the height."""
    QGEMM = 21
    """Of int8: ``sum[m…, n] = Σₖ (src[m…, k] − zero) · weight[n, 0, k]``, in whole numbers, weight in QUADS; then, in
    float32, each operation rounded, ``made = clamp(sum · scale[n] + offset[n], low, high)``; dst takes that as it is
    if it is float32, or rounded half to even if it is int8. ``sums[n] = Σₖ weight[n, 0, k]`` helps the kernels."""
    QCONV2D = 22
    """The same for images, NCHW by name; weight in QUADS for each group; padding counts as ``zero``."""
    QDWCONV2D = 23
    """The same with one filter a channel, weight in DEPTHWISE."""
    BGEMM = 24
    """GEMM of bfloat16, weight in PAIRS: src is float32 and rounded half to even. Sums are float32 and begin with the
    bias: for every 32 of the depth, ``sum += Σ even + Σ odd``, each Σ from 0 on by fused multiplication and addition in
    the order of the depth. Each operation takes, and makes, what is smaller than the smallest normal number as zero.
    That is what AMX computes."""
    BCONV2D = 25
    """The same for images, NCHW by name; weight in PAIRS for each group."""


class Act(IntEnum):
    """What happens to the results of GEMM, CONV2D, CONV2D_WINO, DWCONV2D, BGEMM and BCONV2D before they are stored."""

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


class Resize(IntEnum):
    """Kinds of RESIZE2D."""

    NEAREST = 0
    """``⌊place · step⌋``."""
    NEAREST_EXACT = 1
    """``⌊(place + ½) · step⌋``."""
    LINEAR = 2
    """``(place + ½) · step − ½``, at least 0."""
    LINEAR_ALIGNED = 3
    """``place · step``; the step is such that corners are corners."""


class Scatter(IntEnum):
    """What SCATTER does with an element and an update."""

    SET = 0
    ADD = 1
    MUL = 2
    MIN = 3
    MAX = 4


class Sample(IntEnum):
    """Kinds of SAMPLE2D."""

    LINEAR = 0
    NEAREST = 1
    """Half to even."""


class Outside(IntEnum):
    """What SAMPLE2D finds outside of the image."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


class Reduce(IntEnum):
    """Kinds of REDUCE."""

    SUM = 0
    """Of whole numbers an int64; of int8, too, which no other kind takes."""
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
    MEDIAN = 10
    """Of one dim: the lower one of the two in the middle; the first NaN if there is any."""


class Norm(IntEnum):
    """Kinds of NORM."""

    LAYER = 0
    RMS = 1


@dataclass(frozen=True)
class OpSpec:
    """What an operation takes."""

    sources: tuple[str, ...]
    """Names of its sources; one that ends with ``?`` may be absent; ``…`` at the end: any number."""
    attributes: tuple[str, ...] = ()
    """Names of its attributes, whole numbers; one that ends with ``.`` is a float64; ``…`` at the end: any number."""
    limit: int | None = None
    """Sources at most where there may be any number."""

    @property
    def takes_any(self) -> bool:
        """Whether it takes any number of sources, none of which is absent."""
        return bool(self.sources) and self.sources[-1].endswith("…")

    @property
    def least(self) -> int:
        """Return the number of sources that are always there."""
        return 0 if self.takes_any else sum(not name.endswith("?") for name in self.sources)

    @property
    def most(self) -> int | None:
        """Return the number of sources at most; None for any."""
        return self.limit if self.takes_any else len(self.sources)

    @property
    def words(self) -> int | None:
        """Return the number of words of its attributes; None for any."""
        return None if self.attributes == ("steps…",) else sum(not name.endswith("…") for name in self.attributes)


_CONV = (
    *("stride_h", "stride_w", "top", "left", "bottom", "right", "dilation_h", "dilation_w"),
    *("kernel_h", "kernel_w", "groups"),
)
_EPILOGUE = ("act", "low.", "high.")
_PRODUCT = ("src", "weight", "bias?", "residual?")
_QUANTISED = ("src", "weight", "sums", "scale", "offset")
_MADE = ("zero", "low.", "high.")
OPS: dict[Op, OpSpec] = {
    Op.END: OpSpec(()),
    Op.CALL_HOST: OpSpec(("inputs…",), ("call", "outputs…")),
    Op.COPY: OpSpec(("src",)),
    Op.FILL: OpSpec((), ("value.", "whole")),
    Op.IOTA: OpSpec((), ("start.", "step.")),
    Op.GATHER: OpSpec(("table", "index")),
    Op.EW: OpSpec(("inputs…",), ("steps…",), MOST_SOURCES),
    Op.GEMM: OpSpec(_PRODUCT, _EPILOGUE),
    Op.BMM: OpSpec(("a", "b"), ("scale.",)),
    Op.CONV2D: OpSpec(_PRODUCT, (*_CONV, *_EPILOGUE)),
    Op.CONV2D_WINO: OpSpec(_PRODUCT, (*_CONV, *_EPILOGUE)),
    Op.DWCONV2D: OpSpec(_PRODUCT, (*_CONV, *_EPILOGUE)),
    Op.POOL2D: OpSpec(("src",), ("kind", *_CONV[:10])),
    Op.REDUCE: OpSpec(("src",), ("kind", "dims", "correction.")),
    Op.SOFTMAX: OpSpec(("src",), ("axis", "log")),
    Op.NORM: OpSpec(("src", "weight?", "bias?"), ("kind", "dims", "eps.")),
    Op.ATTENTION: OpSpec(("q", "k", "v", "mask?"), ("causal", "scale.")),
    Op.CUMSUM: OpSpec(("src",), ("axis",)),
    Op.RESIZE2D: OpSpec(("src",), ("kind", "scale_h.", "scale_w.")),
    Op.SCATTER: OpSpec(("src", "index", "update"), ("kind",)),
    Op.SAMPLE2D: OpSpec(("src", "grid"), ("kind", "outside", "aligned")),
    Op.QGEMM: OpSpec(_QUANTISED, _MADE),
    Op.QCONV2D: OpSpec(_QUANTISED, (*_CONV, *_MADE)),
    Op.QDWCONV2D: OpSpec(_QUANTISED, (*_CONV, *_MADE)),
    Op.BGEMM: OpSpec(_PRODUCT, _EPILOGUE),
    Op.BCONV2D: OpSpec(_PRODUCT, (*_CONV, *_EPILOGUE)),
}
"""In the order of their numbers."""
WEIGHTED = frozenset(op for op, spec in OPS.items() if "weight" in spec.sources)
"""Operations with packed weights."""
