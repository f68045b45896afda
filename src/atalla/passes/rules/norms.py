"""Norms: softmax, and what makes the mean and the variance of some elements 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import equal
from atalla.isa import Norm, Op, Reduce, Step
from atalla.passes.constraints import Request, float32, has_dims, has_elements
from atalla.passes.lowering import Lowering, constant, constant_data
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast, broadcast_from, order_for
from atalla.passes.rules.views import place


@rule(
    "softmax.int",
    "log_softmax.int",
    "_softmax.default",
    "_log_softmax.default",
    makes=(Op.SOFTMAX,),
    needs=(float32, has_dims),
)
def softmax(low: Lowering, x: ir.Tensor, axis: int, _other: Any = None) -> ir.Tensor:
    """Exponentials that add up to one, or the logarithms of such."""
    assert low.node is not None, "a rule has its node"
    log = int("log_softmax" in str(low.node.target))
    return low.emit(Op.SOFTMAX, low.like_node(x.order), [x], axis=place(axis, len(x.shape)), log=log)


@rule("layer_norm.default", makes=(Op.NORM,), needs=(float32, has_elements))
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


@rule("rms_norm.default", makes=(Op.NORM,), needs=(float32, has_elements))
def rms_norm(
    low: Lowering, x: ir.Tensor, extents: Sequence[Any], weight: ir.Tensor | None = None, eps: float | None = None
) -> ir.Tensor:
    """The mean square of the last dims becomes 1."""
    return _norm(low, Norm.RMS, x, len(extents), weight, None, 1.1920928955078125e-07 if eps is None else eps)


def _norm(
    low: Lowering, kind: Norm, x: ir.Tensor, dims: int, weight: ir.Tensor | None, bias: ir.Tensor | None, eps: float
) -> ir.Tensor:
    sources = [low.contiguous(x), *(None if one is None else low.contiguous(one) for one in (weight, bias))]
    return low.emit(Op.NORM, low.like_node(), sources, kind=int(kind), dims=dims, eps=float(eps))


def known_channels(asked: Request) -> bool:
    """The number of channels must be known when the program is compiled."""
    return isinstance(asked["x"].shape[1], int)


@rule("group_norm.default", makes=(Op.NORM, Op.EW), needs=(float32, has_elements, known_channels))
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

    value = chain.read(dst)
    factors = [None if one is None else chain.read(broadcast_from(1, one, shape)) for one in (weight, bias)]
    if factors[0] is not None:
        value = chain.step(Step.MUL, value, factors[0])
    if factors[1] is not None:
        value = chain.step(Step.ADD, value, factors[1])
    return chain.emit(low, value, like=[dst])


def known_statistics(asked: Request) -> bool:
    """Weight, bias, mean and variance must be known when the program is compiled."""
    parts = [asked[name] for name in ("weight", "bias", "mean", "variance")]
    return all(one is None or constant_data(one) is not None for one in parts)


def known_or_own_statistics(asked: Request) -> bool:
    """Mean and variance of an instance norm must be known when the program is compiled, or be the instances' own."""
    return bool(asked["own"]) or known_statistics(asked)


@rule(
    "instance_norm.default",
    makes=(Op.REDUCE, Op.EW, Op.NORM), needs=(float32, has_elements, known_channels, known_or_own_statistics),
)  # fmt: skip
def instance_norm(
    low: Lowering,
    x: ir.Tensor,
    weight: ir.Tensor | None,
    bias: ir.Tensor | None,
    mean: ir.Tensor | None,
    variance: ir.Tensor | None,
    own: bool,
    _momentum: float,
    eps: float,
    _cudnn: bool = True,
) -> ir.Tensor:
    """Mean and variance of each channel of each image become 0 and 1."""
    if own:
        return _by_channel(low, x, list(range(2, len(x.shape))), weight, bias, eps)
    assert mean is not None and variance is not None, "else they are its own"
    return batch_norm(low, x, weight, bias, mean, variance, 0.0, eps)[0]


def only_the_result(asked: Request) -> bool:
    """Of a batch norm with statistics of its own only the result must be used, and not the statistics."""
    node = asked.low.node
    assert node is not None, "a rule has its node"
    return not any(user.args[1] != 0 and user.users for user in node.users if len(user.args) > 1)


@rule(
    "_native_batch_norm_legit.no_stats",
    makes=(Op.REDUCE, Op.EW, Op.NORM), needs=(float32, has_elements, known_channels, only_the_result),
)  # fmt: skip
def batch_norm_of_itself(
    low: Lowering,
    x: ir.Tensor,
    weight: ir.Tensor | None,
    bias: ir.Tensor | None,
    _training: bool,
    _momentum: float,
    eps: float,
) -> tuple[ir.Tensor, None, None]:
    """Mean and variance of each channel become 0 and 1: what torch makes of an instance norm."""
    dims = [i for i in range(len(x.shape)) if i != 1 and not equal(x.shape[i], 1)]
    return _by_channel(low, x, dims, weight, bias, eps), None, None


def _by_channel(
    low: Lowering, x: ir.Tensor, dims: Sequence[int], weight: ir.Tensor | None, bias: ir.Tensor | None, eps: float
) -> ir.Tensor:
    """Emit what makes mean and variance over some dims 0 and 1."""
    if 0 not in dims and not equal(x.strides[1], 1):  # the elements of a channel are neighbours
        return group_norm(low, x, x.shape[1], weight, bias, eps)
    kept = [1 if i in dims else n for i, n in enumerate(x.shape)]
    mask = sum(1 << i for i in dims)
    mean, variance = (
        low.emit(Op.REDUCE, low.new(x.dtype, kept), [x], kind=int(kind), dims=mask, correction=0.0)
        for kind in (Reduce.MEAN, Reduce.VAR)
    )
    small = Chain()
    spread, factor = small.read(variance), None if weight is None else small.read(broadcast_from(1, weight, kept))
    scale = small.step(Step.RSQRT, small.step(Step.ADD, spread, small.number(eps, as_float=True)))
    if factor is not None:
        small.step(Step.MUL, scale, factor)
    scales = low.emit(Op.EW, low.new(x.dtype, kept), small.sources, steps=tuple(small.steps))
    chain = Chain()
    value, middle, each = (chain.read(broadcast(one, x.shape)) for one in (x, mean, scales))
    summand = None if bias is None else chain.read(broadcast_from(1, bias, x.shape))
    value = chain.step(Step.MUL, chain.step(Step.SUB, value, middle), each)
    if summand is not None:
        value = chain.step(Step.ADD, value, summand)
    return chain.emit(low, value, like=[x])


@rule("_native_batch_norm_legit_no_training.default", makes=(Op.EW,), needs=(float32, known_statistics))
def batch_norm(
    low: Lowering,
    x: ir.Tensor,
    weight: ir.Tensor | None,
    bias: ir.Tensor | None,
    mean: ir.Tensor,
    variance: ir.Tensor,
    _momentum: float,
    eps: float,
) -> tuple[ir.Tensor, None, None]:
    """A factor and a summand for each channel, worked out here in float64."""
    import torch

    w, b, m, v = (
        None if (part := constant_data(one)) is None else part.double() for one in (weight, bias, mean, variance)
    )
    assert m is not None and v is not None and low.node is not None, "the schema has both, and a rule its node"
    factor = torch.rsqrt(v + eps) * (1 if w is None else w)
    summand = (0 if b is None else b) - m * factor
    chain, shape = Chain(), x.shape
    value = chain.read(x)
    dims = (1, -1, *([1] * (len(shape) - 2)))
    scale = chain.read(broadcast(constant(factor.float().reshape(dims), f"{low.node.name}.scale"), shape))
    shift = chain.read(broadcast(constant(summand.float().reshape(dims), f"{low.node.name}.shift"), shape))
    return chain.emit(low, chain.step(Step.ADD, chain.step(Step.MUL, value, scale), shift)), None, None
