"""Convolutions: channels are the innermost dim in memory, whatever the names of the dims say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from atalla import ir
from atalla.dims import equal, strides_in_order, strides_of_pixels
from atalla.isa import FEW_CHANNELS, Op
from atalla.isa.format import MOST_FILTER_ROWS
from atalla.passes.constraints import Request, float32, has_elements, known_numbers
from atalla.passes.lowering import Lowering, constant_data
from atalla.passes.rule import rule

CHANNELS_LAST = (0, 2, 3, 1)
"""Of DWCONV2D."""


def each(value: Any, dims: int) -> list[int]:
    """Return a number for each dim of a window: the one that is given, alone or in a list, or a list of all."""
    given = list(value) if isinstance(value, Sequence) else [value]
    return given if len(given) == dims else given * dims


def batched(x: ir.Tensor) -> ir.Tensor:
    """Return an image of three dims as a batch of one."""
    return x if len(x.shape) == 4 else x.view((1, *x.shape), (0, *x.strides))


def unbatched(x: ir.Tensor) -> ir.Tensor:
    """Return the one image of a batch."""
    return x.view(x.shape[1:], x.strides[1:])


def channels_last(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Return the same elements with the channels innermost."""
    if equal(x.strides[1], 1) or equal(x.shape[1], 1):
        return x
    return low.copy(x, strides_of_pixels(x.shape))


def known_weights(asked: Request) -> bool:
    """Weight and bias must be known when the program is compiled."""
    return all(one is None or constant_data(one) is not None for one in (asked["weight"], asked["bias"]))


def short_filter(asked: Request) -> bool:
    """A filter must have at most 64 rows."""
    return len(asked["weight"].shape) == 3 or int(asked["weight"].shape[2]) <= MOST_FILTER_ROWS


@rule(
    "conv2d.default", "conv2d.padding", "conv1d.default", "conv1d.padding",
    makes=(Op.CONV2D, Op.DWCONV2D),
    needs=(float32, has_elements, known_numbers, known_weights, short_filter),
)  # fmt: skip
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
    is_row, has_batch = len(weight.shape) == 3, len(x.shape) == len(weight.shape)
    if is_row:  # a row is an image of height 1
        x, weight = as_image(x), as_image(weight)
    x = batched(x)
    strides, dilations = each(stride, 2), each(dilation, 2)
    kernel = [int(n) for n in weight.shape[2:]]
    pads = _pads(padding, kernel, dilations)
    if is_row:
        strides, dilations, pads = [1, strides[1]], [1, dilations[1]], (0, pads[1], 0, pads[3])
    dtype, made = low.output_type()
    made = made if has_batch else (1, *made)
    shape = (*made[:2], 1, made[2]) if is_row else made
    dst = low.new(dtype, shape, strides_of_pixels(shape))
    emit_convolution(low, dst, (x, weight, bias), window(kernel, strides, pads, dilations), groups)
    result = dst if has_batch else unbatched(dst)
    if not is_row:
        return result
    return result.view((*result.shape[:-2], result.shape[-1]), (*result.strides[:-2], result.strides[-1]))


def emit_convolution(
    low: Lowering,
    dst: ir.Tensor,
    sources: tuple[ir.Tensor, ir.Tensor, ir.Tensor | None],
    attributes: Mapping[str, int],
    groups: int,
) -> None:
    """Emit the product that makes ``dst`` of an image, a weight and a bias."""
    x, weight, bias = sources
    channels = x.shape[1]
    if groups > 1 and equal(groups, channels) and not equal(weight.shape[0], channels):
        x = _each_channel_again(low, channels_last(low, x), int(weight.shape[0]) // groups)
        groups = channels = x.shape[1]
    is_depthwise = groups > 1 and equal(weight.shape[1], 1) and equal(weight.shape[0], channels)
    anyhow = groups == 1 and isinstance(channels, int) and channels <= FEW_CHANNELS  # its kernel copies the rows
    low.emit(
        Op.DWCONV2D if is_depthwise else Op.CONV2D,
        dst,
        [x if anyhow else channels_last(low, x), weight, bias],
        **attributes,
        groups=groups,
    )


def _each_channel_again(low: Lowering, x: ir.Tensor, times: int) -> ir.Tensor:
    """Return an image with every channel so many times, one behind the other: as many as there are filters."""
    n, channels, high, wide = x.shape
    shape = (n, channels, times, high, wide)
    copied = low.new(x.dtype, shape, strides_in_order(shape, (0, 3, 4, 1, 2)))
    sn, sc, sh, sw = x.strides
    low.emit(Op.COPY, copied, [x.view(shape, (sn, sc, 0, sh, sw))])
    dn, _, dc, dh, dw = copied.strides
    return copied.view((n, channels * times, high, wide), (dn, dc, dh, dw))


def as_image(x: ir.Tensor) -> ir.Tensor:
    """Return rows as images of height 1."""
    return x.view((*x.shape[:-1], 1, x.shape[-1]), (*x.strides[:-1], 0, x.strides[-1]))


def _pads(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, int, int, int]:
    """Return what is added at the top, left, bottom and right."""
    if padding == "valid":
        return 0, 0, 0, 0
    if padding == "same":
        high, wide = ((k - 1) * d for k, d in zip(kernel, dilation, strict=True))
        return high // 2, wide // 2, high - high // 2, wide - wide // 2
    top, left = each(padding, 2)
    return top, left, top, left


def window(
    kernel: Sequence[int], stride: Sequence[int], pads: Sequence[int], dilation: Sequence[int]
) -> dict[str, int]:
    """Return the attributes of a window."""
    names = (
        *("stride_h", "stride_w", "top", "left", "bottom", "right"),
        *("dilation_h", "dilation_w", "kernel_h", "kernel_w"),
    )
    return dict(zip(names, (*stride, *pads, *dilation, *kernel), strict=True))
