"""Pools: the largest or the mean of windows of rows, images and volumes; channels are the innermost dim in memory.

A window of a volume is one of its planes, and then one of its depth: the largest of the largest, the mean of means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from atalla import ir
from atalla.dims import product, strides_of_pixels
from atalla.isa import Op, Pool
from atalla.passes.constraints import Request, float32, has_elements, known_numbers
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain
from atalla.passes.rules.convolution import channels_last, each, window
from atalla.passes.rules.movement import framed

NEEDS = (float32, has_elements, known_numbers)


@dataclass(frozen=True)
class Window:
    """What a pool does along one dim."""

    size: int = 1
    stride: int = 1
    before: int = 0
    after: int = 0
    dilation: int = 1


def windows(dims: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> list[Window]:
    """Return those of an operator's arguments, each a number or a list."""
    given = (kernel, stride or kernel, padding, padding, dilation)
    return [Window(*one) for one in zip(*(each(value, dims) for value in given), strict=True)]


def dense(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Return the same elements without gaps, channels innermost."""
    order = (0, *range(2, len(x.shape)), 1)
    return x if x.order == order else low.copy(x, strides_of_pixels(x.shape))


def planes(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Return volumes as images: the planes of their depth, one behind the other."""
    x = dense(low, x)
    n, channels, depth, *size = x.shape
    return x.view((product((n, depth)), channels, *size), (x.strides[2], x.strides[1], *x.strides[3:]))


def along(x: ir.Tensor, axis: int) -> ir.Tensor:
    """Return what is dense as images: what lies outside of a dim is the batch, what lies inside of it the width."""
    shape = (product((x.shape[0], *x.shape[2:axis])), x.shape[1], x.shape[axis], product(x.shape[axis + 1 :]))
    return x.view(shape, strides_of_pixels(shape))


def emit_pool(low: Lowering, dst: ir.Tensor, x: ir.Tensor, kind: Pool, high: Window, wide: Window) -> None:
    """Emit a pool of images whose channels are innermost."""
    pads = (high.before, wide.before, high.after, wide.after)
    kernel, stride = (high.size, wide.size), (high.stride, wide.stride)
    attributes = window(kernel, stride, pads, (high.dilation, wide.dilation))
    low.emit(Op.POOL2D, dst, [x], kind=int(kind), **attributes)


def pooled(low: Lowering, x: ir.Tensor, kind: Pool, every: Sequence[Window], shape: Sequence[Any]) -> ir.Tensor:
    """Emit a pool of rows, images or volumes with batch; give a result of that shape."""
    if len(every) == 2:
        dst = low.new(x.dtype, shape, strides_of_pixels(shape))
        emit_pool(low, dst, channels_last(low, x), kind, *every)
        return dst
    if len(every) == 3:
        flat, deep = planes(low, x), (*x.shape[:3], *shape[3:])
        made = pooled(low, flat, kind, every[1:], (*flat.shape[:2], *shape[3:]))
        x = made.view(deep, strides_of_pixels(deep))
    if every[0] == Window():
        return x
    x, dst = dense(low, x), low.new(x.dtype, shape, strides_of_pixels(shape))
    emit_pool(low, along(dst, 2), along(x, 2), kind, every[0], Window())
    return dst


def _of_node(low: Lowering, x: ir.Tensor, kind: Pool, every: Sequence[Window]) -> ir.Tensor:
    """Emit the pool of the current node, whose input may be without batch."""
    _, shape = low.output_type()
    if len(x.shape) == len(every) + 2:
        return pooled(low, x, kind, every, shape)
    made = pooled(low, x.view((1, *x.shape), (0, *x.strides)), kind, every, (1, *shape))
    return made.view(shape, made.strides[1:])


def places_unused(asked: Request) -> bool:
    """Only the largest elements of a pool's windows must be used, and not where they are."""
    node = asked.low.node
    assert node is not None, "a rule has its node"
    return not any(user.args[1] == 1 and user.users for user in node.users if len(user.args) > 1)


@rule("max_pool2d.default", makes=(Op.POOL2D,), needs=NEEDS)
def max_pool(
    low: Lowering, x: ir.Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> ir.Tensor:
    """The largest of each window of an image."""
    return _of_node(low, x, Pool.MAX, windows(2, kernel, stride, padding, dilation))


@rule(
    "max_pool2d_with_indices.default", "max_pool3d_with_indices.default",
    makes=(Op.POOL2D,), needs=(*NEEDS, places_unused),
)  # fmt: skip
def max_pool_with_places(
    low: Lowering, x: ir.Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> tuple[ir.Tensor, None]:
    """The largest of each window of an image or a volume."""
    return _of_node(low, x, Pool.MAX, windows(dims_of(low), kernel, stride, padding, dilation)), None


def dims_of(low: Lowering) -> int:
    """Return how many dims the windows of the current node's operator have."""
    assert low.node is not None, "a rule has its node"
    return 3 if "3d" in str(low.node.target) else 2


def _reach(asked: Request) -> list[bool | None]:
    """Tell of each dim whether a window reaches beyond the padding; None where that is not known."""
    dims = dims_of(asked.low)
    every = windows(dims, asked["kernel"], asked["stride"], asked["padding"])
    sizes = zip(every, asked["x"].shape[-dims:], asked.shape[-dims:], strict=True)
    return [
        (made - 1) * one.stride + one.size > have + 2 * one.before
        if isinstance(have, int) and isinstance(made, int)
        else None
        for one, have, made in sizes
    ]


def known_reach(asked: Request) -> bool:
    """Sizes must be known where the last windows are rounded up and padding counts."""
    return not (asked["ceil"] and asked["counts_padding"]) or None not in _reach(asked)


def divides(asked: Request) -> bool:
    """A divisor must not be zero."""
    return bool(asked["divisor"] != 0)


@rule(
    "avg_pool2d.default", "avg_pool3d.default",
    makes=(Op.POOL2D, Op.FILL, Op.COPY, Op.EW), needs=(*NEEDS, known_reach, divides),
)  # fmt: skip
def avg_pool(
    low: Lowering,
    x: ir.Tensor,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil: bool = False,
    counts_padding: bool = True,
    divisor: int | None = None,
) -> ir.Tensor:
    """The mean of each window, or its sum by a divisor."""
    every = windows(dims_of(low), kernel, stride, padding)
    if divisor is not None:
        made = _of_node(low, x, Pool.MEAN_PADDED, every)
        chain = Chain()
        factor = math.prod(one.size for one in every) / divisor
        return chain.emit(low, chain.scaled(chain.read(made), factor), like=[made])
    if not counts_padding:
        return _of_node(low, x, Pool.MEAN, every)
    arguments = {"x": x, "kernel": kernel, "stride": stride, "padding": padding}
    if not ceil or not any(_reach(Request(low, arguments))):
        return _of_node(low, x, Pool.MEAN_PADDED, every)
    # The padding counts, and what lies beyond it does not: then it is a part of the image.
    frame = [0] * (len(x.shape) - len(every)) + [one.before for one in every]
    inside = [Window(one.size, one.stride) for one in every]
    return _of_node(low, framed(low, x, frame, frame), Pool.MEAN, inside)
