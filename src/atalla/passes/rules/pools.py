"""Pools: the largest or the mean of windows of an image; channels are the innermost dim in memory."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.dims import Dim, equal
from atalla.isa import Op, Pool, Reduce
from atalla.passes.constraints import Request, float32, has_elements, known_numbers
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.convolution import CHANNELS_LAST, batched, channels_last, pair, unbatched, window

NEEDS = (float32, has_elements, known_numbers)


@rule("max_pool2d.default", makes=(Op.POOL2D,), needs=NEEDS)
def max_pool2d(
    low: Lowering, x: ir.Tensor, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> ir.Tensor:
    """The largest of each window."""
    top, left = pair(padding)
    return _pool(low, x, Pool.MAX, pair(kernel), pair(stride or kernel), (top, left, top, left), pair(dilation))


def own_count(asked: Request) -> bool:
    """The divisor must be the number of elements of a window, and no window reach beyond the padding if that counts."""
    if asked["divisor"] is not None:
        return False
    if not (asked["ceil"] and asked["counts_padding"]):
        return True
    sides = zip(
        asked["x"].shape[-2:], asked.shape[-2:], pair(asked["kernel"]), pair(asked["stride"] or asked["kernel"]),
        pair(asked["padding"]), strict=True,
    )  # fmt: skip
    return all(
        isinstance(have, int) and isinstance(made, int) and (made - 1) * step + size <= have + 2 * pad
        for have, made, size, step, pad in sides
    )


@rule("avg_pool2d.default", makes=(Op.POOL2D,), needs=(*NEEDS, own_count))
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
    dtype, shape = low.output_type()
    dst = _image(low, shape)
    attributes = window(kernel, stride, pads, dilation)
    low.emit(Op.POOL2D, dst, [channels_last(low, batched(x))], kind=int(kind), **attributes)
    assert dst.dtype is dtype, "an output has the element type of its node"
    return unbatched(dst) if len(shape) == 3 else dst


def _image(low: Lowering, shape: tuple[Dim, ...]) -> ir.Tensor:
    from atalla.dims import strides_in_order

    shape = shape if len(shape) == 4 else (1, *shape)
    return low.new(low.output_type()[0], shape, strides_in_order(shape, CHANNELS_LAST))


def equal_parts(asked: Request) -> bool:
    """The result must be of size 1, or divide the image into equal parts."""
    pairs = list(zip(asked["x"].shape[-2:], asked.shape[-2:], strict=True))
    if all(equal(want, 1) for _, want in pairs):
        return True
    return all(isinstance(have, int) and isinstance(want, int) and have % want == 0 for have, want in pairs)


@rule("adaptive_avg_pool2d.default", makes=(Op.POOL2D, Op.REDUCE), needs=(float32, has_elements, equal_parts))
def adaptive_avg_pool2d(low: Lowering, x: ir.Tensor, size: Any) -> ir.Tensor:
    """Means of equal parts."""
    _, shape = low.output_type()
    if len(x.shape) == 4 and all(equal(one, 1) for one in shape[2:]):
        return low.emit(
            Op.REDUCE, low.like_node(CHANNELS_LAST), [x], kind=int(Reduce.MEAN), dims=0b1100, correction=0.0
        )
    kernel = pair([have // want for have, want in zip(x.shape[-2:], shape[-2:], strict=True)])
    return _pool(low, x, Pool.MEAN, kernel, kernel, (0, 0, 0, 0), (1, 1))
