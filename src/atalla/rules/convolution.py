"""Convolutions and pools: channels are the innermost dim in memory, whatever the names of the dims say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import equal
from atalla.isa import FEW_CHANNELS, Op, Pool, Reduce, Step
from atalla.lower import Lowering, UnsupportedError, known
from atalla.rules import rule
from atalla.rules.elementwise import Chain, broadcast, order_for
from atalla.rules.linear import float32

CHANNELS_LAST = (0, 2, 3, 1)


def pair(value: Any) -> tuple[int, int]:
    """Give two numbers of one, or of a list of one or two."""
    given = list(value) if isinstance(value, Sequence) else [value]
    if not all(isinstance(one, int) for one in given):
        raise UnsupportedError("a size that is known only at run time")
    return (given[0], given[-1])


def channels_last(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Give the same elements with the channels innermost."""
    from atalla.dims import ordered

    if equal(x.strides[1], 1) or equal(x.shape[1], 1):
        return x
    return low.copy(x, ordered(x.shape, CHANNELS_LAST))


@rule("conv2d.default", "conv2d.padding", "conv1d.default", "conv1d.padding")
def convolution(
    low: Lowering,
    x: ir.Tensor,
    weight: ir.Tensor,
    bias: ir.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> ir.Tensor:
    """A convolution of images, or of rows of them."""
    float32(x, weight, bias)
    filters = known(weight)
    if filters is None or (bias is not None and known(bias) is None):
        raise UnsupportedError("a convolution whose weights are known only at run time")
    if len(x.shape) != len(weight.shape):
        raise UnsupportedError("a convolution without a batch")
    is_row = len(weight.shape) == 3
    if is_row:  # a row is an image of height 1
        x = x.view((*x.shape[:2], 1, x.shape[2]), (*x.strides[:2], 0, x.strides[2]))
        weight = weight.view((*weight.shape[:2], 1, weight.shape[2]), (*weight.strides[:2], 0, weight.strides[2]))
    strides, dilations = pair(stride), pair(dilation)
    kernel = pair([int(n) for n in weight.shape[2:]])
    pads = _pads(padding, kernel, dilations)
    if is_row:
        strides, dilations, pads = (1, strides[1]), (1, dilations[1]), (0, pads[1], 0, pads[3])
    is_depthwise = groups > 1 and equal(weight.shape[1], 1) and equal(weight.shape[0], x.shape[1])
    dst = _image(low, is_row)
    channels = x.shape[1]
    anyhow = groups == 1 and isinstance(channels, int) and channels <= FEW_CHANNELS  # its kernel lays out the rows anew
    low.emit(
        Op.DWCONV2D if is_depthwise else Op.CONV2D,
        dst,
        [x if anyhow else channels_last(low, x), weight, bias],
        **_window(kernel, strides, pads, dilations),
        groups=groups,
    )
    return dst.view((*dst.shape[:2], dst.shape[3]), (*dst.strides[:2], dst.strides[3])) if is_row else dst


def _image(low: Lowering, is_row: bool) -> ir.Tensor:
    """Give a new image, or row, for the current node with the channels innermost."""
    from atalla.dims import ordered

    dtype, shape = low.meta()
    shape = (*shape[:2], 1, shape[2]) if is_row else shape
    return low.new(dtype, shape, ordered(shape, CHANNELS_LAST))


def _pads(padding: Any, kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    """Give what is added at the top, left, bottom and right."""
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        high, wide = ((k - 1) * d for k, d in zip(kernel, dilation, strict=True))
        return high // 2, wide // 2, high - high // 2, wide - wide // 2
    top, left = pair(padding)
    return top, left, top, left


def _window(
    kernel: tuple[int, int], stride: tuple[int, int], pads: tuple[int, int, int, int], dilation: tuple[int, int]
) -> dict[str, int]:
    names = (
        "stride_h",
        "stride_w",
        "top",
        "left",
        "bottom",
        "right",
        "dilation_h",
        "dilation_w",
        "kernel_h",
        "kernel_w",
    )
    return dict(zip(names, (*stride, *pads, *dilation, *kernel), strict=True))


@rule("_native_batch_norm_legit_no_training.default")
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

    from atalla.lower import constant

    float32(x)
    parts = [None if one is None else known(one) for one in (weight, bias, mean, variance)]
    if any(one is not None and part is None for one, part in zip((weight, bias, mean, variance), parts, strict=True)):
        raise UnsupportedError("a batch norm whose statistics are known only at run time")
    w, b, m, v = (None if part is None else part.double() for part in parts)
    assert m is not None and v is not None, "the schema has both"
    factor = torch.rsqrt(v + eps) * (1 if w is None else w)
    summand = (0 if b is None else b) - m * factor
    assert low.node is not None, "a rule has its node"
    chain, shape = Chain(), x.shape
    value = chain.read(x)
    dims = (1, -1, *([1] * (len(shape) - 2)))
    scale = chain.read(broadcast(constant(factor.float().reshape(dims), f"{low.node.name}.scale"), shape))
    shift = chain.read(broadcast(constant(summand.float().reshape(dims), f"{low.node.name}.shift"), shape))
    chain.step(Step.ADD, chain.step(Step.MUL, value, scale), shift)
    dst = low.like_node(order_for(shape, [x]))
    return low.emit(Op.EW, dst, chain.sources, steps=chain.attribute()), None, None


@rule("max_pool2d.default")
def max_pool2d(
    low: Lowering, x: ir.Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> ir.Tensor:
    """The largest of each window."""
    top, left = pair(padding)
    return _pool(low, x, Pool.MAX, pair(kernel), pair(stride or kernel), (top, left, top, left), pair(dilation))


@rule("avg_pool2d.default")
def avg_pool2d(
    low: Lowering,
    x: ir.Tensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil: bool = False,
    counts_padding: bool = True,
    divisor: int | None = None,
) -> ir.Tensor:
    """The mean of each window."""
    if divisor is not None or (ceil and counts_padding):
        raise UnsupportedError("a mean with a divisor of its own, or of windows that reach beyond the padding")
    top, left = pair(padding)
    kind = Pool.MEAN_PADDED if counts_padding else Pool.MEAN
    return _pool(low, x, kind, pair(kernel), pair(stride or kernel), (top, left, top, left), (1, 1))


def _pool(
    low: Lowering,
    x: ir.Tensor,
    kind: Pool,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: tuple[int, int, int, int],
    dilation: tuple[int, int],
) -> ir.Tensor:
    float32(x)
    if len(x.shape) != 4:
        raise UnsupportedError("a pool without a batch")
    dst = low.like_node(CHANNELS_LAST)
    return low.emit(Op.POOL2D, dst, [channels_last(low, x)], kind=int(kind), **_window(kernel, stride, pads, dilation))


@rule("adaptive_avg_pool2d.default")
def adaptive_avg_pool2d(low: Lowering, x: ir.Tensor, size: Any) -> ir.Tensor:
    """Means of equal parts."""
    float32(x)
    _, shape = low.meta()
    if len(x.shape) == 4 and all(equal(one, 1) for one in shape[2:]):
        return low.emit(
            Op.REDUCE, low.like_node(CHANNELS_LAST), [x], kind=int(Reduce.MEAN), dims=0b1100, correction=0.0
        )
    sizes = [(have, want) for have, want in zip(x.shape[-2:], shape[-2:], strict=True)]
    if not all(isinstance(have, int) and isinstance(want, int) and have % want == 0 for have, want in sizes):
        raise UnsupportedError("an adaptive pool of unequal parts")
    kernel = pair([have // want for have, want in sizes])
    return _pool(low, x, Pool.MEAN, kernel, kernel, (0, 0, 0, 0), (1, 1))
