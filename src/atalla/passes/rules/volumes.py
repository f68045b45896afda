"""Volumes: a convolution of three dims is one of images whose channels are the channels of so many neighbours in depth.

In memory, depth lies just outside of the channels, ``[N][H][W][D][C]``: then the channels of ``taps`` neighbours in
depth are neighbours themselves, and the images of two places in depth are views that share elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from atalla import ir
from atalla.dims import equal, simplify, strides_in_order
from atalla.isa import Op
from atalla.passes.lowering import Lowering, constant, constant_data
from atalla.passes.rules.convolution import emit_convolution, window

DEPTH_INSIDE = (0, 3, 4, 2, 1)
"""Order in memory of a volume's dims."""


@dataclass(frozen=True)
class Filter:
    """What a convolution of volumes does along depth, height and width."""

    stride: Sequence[int]
    before: Sequence[int]
    after: Sequence[int]
    dilation: Sequence[int]
    groups: int


def emit_volume(
    low: Lowering, dst: ir.Tensor, sources: tuple[ir.Tensor, ir.Tensor, ir.Tensor | None], filter_: Filter
) -> None:
    """Emit the products that make a volume of a volume, a weight and a bias."""
    x, weight, bias = sources
    data = constant_data(weight)
    assert data is not None, "a constraint of the rule"
    columns, _, taps, *kernel = data.shape
    flat = data.transpose(1, 2).reshape(columns, -1, *kernel)
    images = constant(flat.contiguous(), weight.name)
    pads = (*filter_.before[1:], *filter_.after[1:])
    attributes = window(kernel, filter_.stride[1:], pads, filter_.dilation[1:])
    volume, step = _neighbours(low, x, taps, dst.shape[2], filter_)
    for source, target in _batches(volume, dst, step, taps * x.shape[1]):
        emit_convolution(low, target, (source, images, bias), attributes, filter_.groups)


def _neighbours(low: Lowering, x: ir.Tensor, taps: int, places: int, filter_: Filter) -> tuple[ir.Tensor, Any]:
    """Return a volume with depth just outside of the channels, padded there, and how far its images are apart."""
    step, dilation, before, groups = filter_.stride[0], filter_.dilation[0], filter_.before[0], filter_.groups
    length = (places - 1) * step + (taps - 1) * dilation + 1
    channels, depth = x.shape[1], x.shape[2]
    lies = equal(x.strides[1], 1) and equal(x.strides[2], channels)
    if not (before == 0 and length <= depth and lies):
        x = _padded(low, x, before, length)
    if groups == 1 and (dilation == 1 or taps == 1):
        return x, simplify(step * channels)
    n, _, _, high, wide = x.shape
    each = channels // groups
    shape = (n, places, groups, taps, each, high, wide)
    copied = low.new(x.dtype, shape, strides_in_order(shape, (0, 5, 6, 1, 2, 3, 4)))
    sn, sc, sd, sh, sw = x.strides
    view = x.view(shape, (sn, simplify(sd * step), simplify(sc * each), simplify(sd * dilation), sc, sh, sw))
    low.emit(Op.COPY, copied, [view])
    strides = copied.strides
    return copied.view((n, taps * channels, places, high, wide), (strides[0], 1, strides[1], *strides[5:])), strides[1]


def _padded(low: Lowering, x: ir.Tensor, before: int, length: int) -> ir.Tensor:
    """Return a volume of another depth, with zeros in front and behind."""
    n, channels, depth, high, wide = x.shape
    shape = (n, channels, length, high, wide)
    padded = low.new(x.dtype, shape, strides_in_order(shape, DEPTH_INSIDE))
    kept = min(depth, length - before) if length > before else 0
    for start, size in ((0, min(before, length)), (before + kept, length - before - kept)):
        if size > 0:
            low.fill(padded.narrow(2, start, size), 0)
    if kept > 0:
        low.emit(Op.COPY, padded.narrow(2, before, kept), [x.narrow(2, 0, kept)])
    return padded


def _batches(x: ir.Tensor, dst: ir.Tensor, step: Any, channels: int) -> Iterator[tuple[ir.Tensor, ir.Tensor]]:
    """Give images and what is made of them, each a batch: all of one volume, or one of each volume."""
    count, places = dst.shape[0], dst.shape[2]
    sn, _, _, sh, sw = x.strides
    tn, tc, td, th, tw = dst.strides
    image, made = (channels, *x.shape[3:]), (dst.shape[1], *dst.shape[3:])
    if isinstance(count, int) and count <= places:
        for n in range(count):
            yield (
                x.view((places, *image), (step, 1, sh, sw), simplify(n * sn)),
                dst.view((places, *made), (td, tc, th, tw), simplify(n * tn)),
            )
        return
    for d in range(places):
        yield (
            x.view((count, *image), (sn, 1, sh, sw), simplify(d * step)),
            dst.view((count, *made), (tn, tc, th, tw), simplify(d * td)),
        )
