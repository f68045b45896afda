"""The convolution of all kinds that torch takes others apart into: of rows, images and volumes, transposed or not."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.dims import equal, strides_in_order
from atalla.isa import Op
from atalla.passes.constraints import Request, float32, has_elements, known_numbers
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.convolution import (
    CHANNELS_LAST,
    as_image,
    convolution,
    each,
    emit_convolution,
    known_weights,
    short_filter,
    window,
)
from atalla.passes.rules.transposed import Axis, fits, pieces
from atalla.passes.rules.volumes import DEPTH_INSIDE, Filter, emit_volume


def known_depth(asked: Request) -> bool:
    """The depth of a convolution of volumes must be known when the program is compiled."""
    if len(asked["weight"].shape) != 5:
        return True
    return isinstance(asked["x"].shape[-3], int) and isinstance(asked.shape[-3], int)


def at_most_three(asked: Request) -> bool:
    """A convolution must have one, two or three dims beside batch and channels."""
    return len(asked["weight"].shape) in {3, 4, 5}


def makes_something(asked: Request) -> bool:
    """No dim of a convolution's result may be of size 0."""
    return not any(equal(extent, 0) for extent in asked.shape)


def grows_by_stride(asked: Request) -> bool:
    """The sizes of a transposed convolution's result must follow from the input's."""
    if not asked["transposed"]:
        return True
    rank = len(asked["weight"].shape) - 2
    sizes = zip(_axes(asked.arguments), asked["x"].shape[-rank:], asked.shape[-rank:], strict=True)
    return all(fits(*one) for one in sizes)


def _axes(arguments: Any) -> list[Axis]:
    weight = arguments["weight"]
    taps = [int(n) for n in weight.shape[2:]]
    rest = [each(arguments[name], len(taps)) for name in ("stride", "padding", "dilation")]
    return [Axis(*one) for one in zip(taps, *rest, strict=True)]


@rule(
    "convolution.default",
    makes=(Op.CONV2D, Op.DWCONV2D, Op.FILL, Op.COPY),
    needs=(
        *(float32, has_elements, makes_something, known_numbers, known_weights, at_most_three, short_filter),
        *(known_depth, grows_by_stride),
    ),
)  # fmt: skip
def any_convolution(
    low: Lowering,
    x: ir.Tensor,
    weight: ir.Tensor,
    bias: ir.Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    transposed: bool = False,
    output_padding: Any = 0,
    groups: int = 1,
) -> ir.Tensor:
    """A convolution of rows, images or volumes, transposed or not."""
    rank = len(weight.shape) - 2
    if not transposed and rank < 3:
        return convolution(low, x, weight, bias, stride, padding, dilation, groups)
    dtype, made = low.output_type()
    has_batch = len(x.shape) == rank + 2
    if not has_batch:
        x, made = x.view((1, *x.shape), (0, *x.strides)), (1, *made)
    shape = (*made[:2], 1, *made[2:]) if rank == 1 else made
    dst = low.new(dtype, shape, strides_in_order(shape, CHANNELS_LAST if rank < 3 else DEPTH_INSIDE))
    axes = _axes({"weight": weight, "stride": stride, "padding": padding, "dilation": dilation})
    if transposed:
        _transposed(low, x, dst, (weight, bias), axes, groups)
    else:
        pads = [axis.padding for axis in axes]
        filter_ = Filter([axis.stride for axis in axes], pads, pads, [axis.dilation for axis in axes], groups)
        emit_volume(low, dst, (x, weight, bias), filter_)
    if rank == 1:
        dst = dst.view((*dst.shape[:2], dst.shape[3]), (*dst.strides[:2], dst.strides[3]))
    return dst if has_batch else dst.view(dst.shape[1:], dst.strides[1:])


def _transposed(
    low: Lowering,
    x: ir.Tensor,
    dst: ir.Tensor,
    sources: tuple[ir.Tensor, ir.Tensor | None],
    axes: list[Axis],
    groups: int,
) -> None:
    weight, bias = sources
    if len(axes) == 1:
        x, weight, axes = as_image(x), as_image(weight), [Axis(1, 1, 0, 1), *axes]
    if not equal(x.strides[1], 1):  # once for all parts
        x = low.copy(x, strides_in_order(x.shape, CHANNELS_LAST if len(axes) == 2 else DEPTH_INSIDE))
    for one in pieces(low, x, dst, (weight, bias), axes, groups):
        if len(axes) == 3:
            filter_ = Filter((1, 1, 1), one.before, one.after, one.dilation, groups)
            emit_volume(low, one.dst, (one.x, one.weight, bias), filter_)
            continue
        kernel = [int(n) for n in one.weight.shape[2:]]
        attributes = window(kernel, (1, 1), (*one.before, *one.after), one.dilation)
        emit_convolution(low, one.dst, (one.x, one.weight, bias), attributes, groups)
