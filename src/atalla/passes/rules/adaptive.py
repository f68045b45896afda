"""Adaptive pools: windows that share out a dim as evenly as whole numbers allow.

Window j begins at ⌊j · have / made⌋ and ends before ⌈(j + 1) · have / made⌉. With g, the greatest common divisor, those
of every ``made / g``-th window are as long, and ``have / g`` apart: each such group is a pool like any other.
"""

from __future__ import annotations

import math
from typing import Any

from atalla import ir
from atalla.dims import equal, simplify, strides_of_pixels
from atalla.isa import Op, Pool, Reduce
from atalla.passes.constraints import Request, float32, has_elements
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.pools import Window, along, dense, dims_of, emit_pool, places_unused, pooled
from atalla.passes.rules.reductions import reduce


def known_parts(asked: Request) -> bool:
    """Sizes of an adaptive pool must be known when the program is compiled, or its result be of size 1."""
    pairs = _sizes(asked.low, asked["x"])
    if any(equal(made, 0) for _, made in pairs):
        return False
    whole = all(isinstance(have, int) and isinstance(made, int) for have, made in pairs)
    return whole or all(equal(made, 1) for _, made in pairs)


def _sizes(low: Lowering, x: ir.Tensor) -> list[tuple[Any, Any]]:
    """Return the sizes before and after of the dims that windows share out."""
    dims = dims_of(low)
    return list(zip(x.shape[-dims:], low.output_type()[1][-dims:], strict=True))


MAKES, NEEDS = (Op.POOL2D, Op.REDUCE), (float32, has_elements, known_parts)


@rule("adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", makes=MAKES, needs=NEEDS)
def adaptive_avg_pool(low: Lowering, x: ir.Tensor, _size: Any) -> ir.Tensor:
    """Means of parts."""
    return _adaptive(low, x, Pool.MEAN, Reduce.MEAN)


@rule(
    "adaptive_max_pool2d.default", "adaptive_max_pool3d.default", makes=MAKES, needs=(*NEEDS, places_unused),
)  # fmt: skip
def adaptive_max_pool(low: Lowering, x: ir.Tensor, _size: Any) -> tuple[ir.Tensor, None]:
    """The largest of each part."""
    return _adaptive(low, x, Pool.MAX, Reduce.MAX), None


def _adaptive(low: Lowering, x: ir.Tensor, kind: Pool, all_of_it: Reduce) -> ir.Tensor:
    sizes = _sizes(low, x)
    rank, dims = len(x.shape), len(sizes)
    if all(equal(made, 1) for _, made in sizes):
        return reduce(low, x, all_of_it, list(range(rank - dims, rank)))
    has_batch = rank == dims + 2
    image = x if has_batch else x.view((1, *x.shape), (0, *x.strides))
    if all(have % made == 0 for have, made in sizes):
        every = [Window(have // made, have // made) for have, made in sizes]
        result = pooled(low, image, kind, every, (*image.shape[:2], *(made for _, made in sizes)))
    else:
        result = image
        for axis, (have, made) in enumerate(sizes, 2):
            result = result if have == made else _shared_out(low, result, kind, axis, have, made)
    return result if has_batch else result.view(result.shape[1:], result.strides[1:])


def _shared_out(low: Lowering, x: ir.Tensor, kind: Pool, axis: int, have: int, made: int) -> ir.Tensor:
    """Emit the windows of one dim, a pool for each group of those that are as long."""
    x = dense(low, x)
    shape = [made if i == axis else n for i, n in enumerate(x.shape)]
    dst = low.new(x.dtype, shape, strides_of_pixels(shape))
    source, target, common = along(x, axis), along(dst, axis), math.gcd(have, made)
    groups = made // common
    for first in range(groups):
        start, end = first * have // made, -(-(first + 1) * have // made)
        part = source.narrow(2, start, have - start)
        sn, sc, sh, sw = target.strides
        places = target.view(
            (*target.shape[:2], common, target.shape[3]), (sn, sc, simplify(groups * sh), sw), simplify(first * sh)
        )
        emit_pool(low, places, part, kind, Window(end - start, have // common), Window())
    return dst
