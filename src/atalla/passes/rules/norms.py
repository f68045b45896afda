"""Norms: softmax, and what makes the mean and the variance of some elements 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.isa import Norm, Op, Step
from atalla.passes.constraints import Request, float32, has_dims, has_elements
from atalla.passes.lowering import Lowering, constant, constant_data
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast, order_for
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

    def channels(one: ir.Tensor) -> ir.Tensor:
        rest = len(shape) - 2
        return broadcast(one.view((one.shape[0], *([1] * rest)), (one.strides[0], *([0] * rest))), shape)

    value = chain.read(dst)
    factors = [None if one is None else chain.read(channels(one)) for one in (weight, bias)]
    if factors[0] is not None:
        value = chain.step(Step.MUL, value, factors[0])
    if factors[1] is not None:
        value = chain.step(Step.ADD, value, factors[1])
    return chain.emit(low, value, like=[dst])


def known_statistics(asked: Request) -> bool:
    """Weight, bias, mean and variance must be known when the program is compiled."""
    parts = [asked[name] for name in ("weight", "bias", "mean", "variance")]
    return all(one is None or constant_data(one) is not None for one in parts)


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
