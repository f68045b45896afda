"""Reductions: sums, means, extremes and norms over some of the dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import equal
from atalla.isa import Dtype, Norm, Op, Reduce, Step
from atalla.lower import Lowering, UnsupportedError
from atalla.rules import rule
from atalla.rules.elementwise import Chain, broadcast, order_for
from atalla.rules.linear import float32
from atalla.rules.views import place

REDUCED = frozenset({Dtype.F32, Dtype.I64, Dtype.I32, Dtype.BOOL})


def reduce(low: Lowering, x: ir.Tensor, kind: Reduce, dims: Any, correction: float = 0.0) -> ir.Tensor:
    """Emit a REDUCE for the current node; the dims are kept, with one element, as far as the instruction goes."""
    dtype, shape = low.meta()
    if x.dtype not in REDUCED or dtype not in REDUCED:
        raise UnsupportedError(f"{x.dtype.name} is not reduced to {dtype.name}")
    if any(equal(extent, 0) for extent in x.shape):
        raise UnsupportedError("nothing is reduced")
    rank = len(x.shape)
    given = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    gone = {place(i, rank) for i in given}
    kept = [1 if i in gone else extent for i, extent in enumerate(x.shape)]
    order = None if x.order is None else [i for i in x.order if i not in gone]
    dst = low.new(dtype, shape) if len(shape) == rank else _without(low, dtype, shape, order, gone)
    left = list(dst.strides) if len(shape) < rank else [stride for i, stride in enumerate(dst.strides) if i not in gone]
    strides = [0 if i in gone else left.pop(0) for i in range(rank)]
    mask = sum(1 << i for i in gone)
    low.emit(Op.REDUCE, dst.view(kept, strides), [x], kind=int(kind), dims=mask, correction=correction)
    return dst


def _without(
    low: Lowering, dtype: Dtype, shape: Sequence[Any], order: Sequence[int] | None, gone: set[int]
) -> ir.Tensor:
    """Give a new storage whose dims lie in memory as those of the source that are kept."""
    from atalla.dims import ordered

    if order is None:
        return low.new(dtype, shape)
    numbers = sorted(order)
    assert not set(numbers) & gone, "only kept dims"
    return low.new(dtype, shape, ordered(shape, [numbers.index(i) for i in order]))


@rule("mean.dim", "mean.default")
def mean(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> ir.Tensor:
    """The mean of floats."""
    float32(x)
    return reduce(low, x, Reduce.MEAN, dims)


@rule("sum.dim_IntList", "sum.default")
def sum_(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> ir.Tensor:
    """The sum; that of whole numbers is an int64."""
    return reduce(low, x, Reduce.SUM, dims)


@rule("amax.default")
def amax(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """The largest."""
    return reduce(low, x, Reduce.MAX, dims)


@rule("amin.default")
def amin(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """The smallest."""
    return reduce(low, x, Reduce.MIN, dims)


@rule("any.dim", "any.default", "any.dims")
def any_(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """Whether one is not zero."""
    return reduce(low, x, Reduce.ANY, dims)


@rule("all.dim", "all.default", "all.dims")
def all_(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """Whether none is zero."""
    return reduce(low, x, Reduce.ALL, dims)


@rule("argmax.default")
def argmax(low: Lowering, x: ir.Tensor, index: int | None = None, keepdim: bool = False) -> ir.Tensor:
    """Where the largest is, the first of equals."""
    return _arg(low, x, Reduce.ARGMAX, index)


@rule("argmin.default")
def argmin(low: Lowering, x: ir.Tensor, index: int | None = None, keepdim: bool = False) -> ir.Tensor:
    """Where the smallest is, the first of equals."""
    return _arg(low, x, Reduce.ARGMIN, index)


def _arg(low: Lowering, x: ir.Tensor, kind: Reduce, index: int | None) -> ir.Tensor:
    if index is None:
        raise UnsupportedError("the place of an extreme is found along one dim, only")
    return reduce(low, x, kind, index)


@rule("var.correction")
def var(
    low: Lowering, x: ir.Tensor, dims: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> ir.Tensor:
    """The variance."""
    float32(x)
    return reduce(low, x, Reduce.VAR, dims, 1.0 if correction is None else float(correction))


@rule("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default")
def softmax(low: Lowering, x: ir.Tensor, axis: int, _other: Any = None) -> ir.Tensor:
    """Exponentials that add up to one, or the logarithms of such."""
    assert low.node is not None, "a rule has its node"
    float32(x)
    dtype, shape = low.meta()
    if dtype is not Dtype.F32 or not shape:
        raise UnsupportedError("a softmax with another element type")
    log = int("log_softmax" in str(low.node.target))
    return low.emit(Op.SOFTMAX, low.like_node(x.order), [x], axis=place(axis, len(shape)), log=log)


@rule("layer_norm.default")
def layer_norm(
    low: Lowering,
    x: ir.Tensor,
    extents: Sequence[Any],
    weight: ir.Tensor | None = None,
    bias: ir.Tensor | None = None,
    eps: float = 1e-5,
    _cudnn: bool = True,
) -> ir.Tensor:
    """Mean and variance of the last dims become 0 and 1."""
    return _norm(low, Norm.LAYER, x, len(extents), weight, bias, eps)


@rule("rms_norm.default")
def rms_norm(
    low: Lowering, x: ir.Tensor, extents: Sequence[Any], weight: ir.Tensor | None = None, eps: float | None = None
) -> ir.Tensor:
    """The mean square of the last dims becomes 1."""
    return _norm(low, Norm.RMS, x, len(extents), weight, None, 1.1920928955078125e-07 if eps is None else eps)


def _norm(
    low: Lowering, kind: Norm, x: ir.Tensor, dims: int, weight: ir.Tensor | None, bias: ir.Tensor | None, eps: float
) -> ir.Tensor:
    float32(x, weight, bias)
    if any(equal(extent, 0) for extent in x.shape):
        raise UnsupportedError("nothing is normalised")
    sources = [low.contiguous(x), *(None if one is None else low.contiguous(one) for one in (weight, bias))]
    return low.emit(Op.NORM, low.like_node(), sources, kind=int(kind), dims=dims, eps=float(eps))


@rule("group_norm.default")
def group_norm(
    low: Lowering,
    x: ir.Tensor,
    groups: int,
    weight: ir.Tensor | None = None,
    bias: ir.Tensor | None = None,
    eps: float = 1e-5,
    _cudnn: bool = True,
) -> ir.Tensor:
    """Mean and variance of each group of channels become 0 and 1."""
    float32(x, weight, bias)
    if not isinstance(x.shape[1], int) or any(equal(extent, 0) for extent in x.shape):
        raise UnsupportedError("groups of channels whose number is known only at run time")
    each, shape = x.shape[1] // groups, x.shape
    dst = low.like_node(order_for(shape, [x]))

    def grouped(one: ir.Tensor) -> ir.Tensor:
        return one.view(
            (shape[0], groups, each, *shape[2:]),
            (one.strides[0], one.strides[1] * each, one.strides[1], *one.strides[2:]),
        )

    dims = len(shape) - 1
    low.emit(Op.NORM, grouped(dst), [grouped(x)], kind=int(Norm.LAYER), dims=dims, eps=float(eps))
    if weight is None and bias is None:
        return dst
    chain = Chain()

    def channels(one: ir.Tensor) -> ir.Tensor:
        rest = len(shape) - 2
        return broadcast(one.view((one.shape[0], *([1] * rest)), (one.strides[0], *([0] * rest))), shape)

    value = chain.read(dst)
    factors = [None if one is None else chain.read(channels(one)) for one in (weight, bias)]
    if factors[0] is not None:
        value = chain.step(Step.MUL, value, factors[0])
    if factors[1] is not None:
        chain.step(Step.ADD, value, factors[1])
    return low.emit(Op.EW, low.like_node(dst.order), chain.sources, steps=chain.attribute())


@rule("cumsum.default")
def cumsum(low: Lowering, x: ir.Tensor, axis: int, *, dtype: Any = None) -> ir.Tensor:
    """The running sum."""
    made, shape = low.meta()
    if x.dtype not in REDUCED or made not in {Dtype.F32, Dtype.I64} or not shape:
        raise UnsupportedError(f"{x.dtype.name} is not summed up to {made.name}")
    return low.emit(Op.CUMSUM, low.like_node(), [x], axis=place(axis, len(shape)))
