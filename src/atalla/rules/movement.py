"""Movement: operators that gather and join elements; copies into views of what they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import equal, simple
from atalla.isa import Dtype, Op
from atalla.lower import Lowering, UnsupportedError
from atalla.rules import rule
from atalla.rules.elementwise import broadcast, order_for
from atalla.rules.views import place


@rule("cat.default")
def cat(low: Lowering, tensors: Sequence[ir.Tensor], index: int = 0) -> ir.Tensor:
    """Tensors behind each other along a dim."""
    dtype, shape = low.meta()
    tensors = [one for one in tensors if not (len(one.shape) == 1 and equal(one.shape[0], 0) and len(shape) > 1)]
    orders = {one.order for one in tensors} - {None}
    dst = low.like_node(orders.pop() if len(orders) == 1 else None)
    index, start = place(index, len(shape)), 0
    for one in tensors:
        part = dst.view(one.shape, dst.strides, simple(start * dst.strides[index]))
        low.emit(Op.COPY, part, [one])
        start = simple(start + one.shape[index])
    assert dst.dtype is dtype, "an output has the element type of its node"
    return dst


@rule("stack.default")
def stack(low: Lowering, tensors: Sequence[ir.Tensor], index: int = 0) -> ir.Tensor:
    """Tensors side by side along a new dim."""
    from atalla.rules.views import unsqueeze

    _, shape = low.meta()
    at = place(index, len(shape))
    return cat(low, [unsqueeze(low, one, at) for one in tensors], at)


@rule("repeat.default")
def repeat(low: Lowering, x: ir.Tensor, times: Sequence[Any]) -> ir.Tensor:
    """A tensor, so many times along each dim."""
    _, shape = low.meta()
    dst = low.like_node()
    missing = len(times) - len(x.shape)
    extents = (*([1] * missing), *x.shape)
    twice = [extent for pair in zip(times, extents, strict=True) for extent in pair]
    strides: list[Any] = []
    for extent, stride in zip(extents, dst.strides, strict=True):
        strides += [simple(extent * stride), stride]
    inner = [simple(stride) for stride in (*([0] * missing), *x.strides)]
    source = x.view(twice, [stride for one in inner for stride in (0, one)])
    low.emit(Op.COPY, dst.view(twice, strides), [source])
    assert len(dst.shape) == len(shape), "as many dims as the node's"
    return dst


@rule("embedding.default")
def embedding(low: Lowering, table: ir.Tensor, index: ir.Tensor, *_: Any, **__: Any) -> ir.Tensor:
    """Rows of a table by their numbers."""
    return low.emit(Op.GATHER, low.like_node(), [low.contiguous(table), index])


@rule("index_select.default")
def index_select(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor) -> ir.Tensor:
    """Elements of the first dim by their numbers."""
    if place(axis, len(x.shape)) != 0 or len(index.shape) != 1:
        raise UnsupportedError("elements are selected along the first dim, only")
    return low.emit(Op.GATHER, low.like_node(), [low.contiguous(x), index])


@rule("constant_pad_nd.default")
def constant_pad_nd(low: Lowering, x: ir.Tensor, pad: Sequence[Any], value: float = 0) -> ir.Tensor:
    """A frame of one value around a tensor; where it is negative, a part of it."""
    if not all(isinstance(one, int) for one in pad):
        raise UnsupportedError("padding that is known only at run time")
    _, shape = low.meta()
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    inner, outside, inside = list(x.shape), 0, 0
    dst = low.like_node(order_for(shape, [x]) or x.order)
    for i in range(rank):
        inner[i] = simple(inner[i] + min(before[i], 0) + min(after[i], 0))
        outside = simple(outside + max(before[i], 0) * dst.strides[i])
        inside = simple(inside + max(-before[i], 0) * x.strides[i])
    whole = 0 if dst.dtype.is_float else int(value)
    low.emit(Op.FILL, dst, value=float(value), whole=whole)
    low.emit(Op.COPY, dst.view(inner, dst.strides, outside), [x.view(inner, x.strides, inside)])
    return dst


@rule("upsample_nearest2d.vec")
def upsample_nearest2d(low: Lowering, x: ir.Tensor, size: Any, factors: Sequence[float] | None) -> ir.Tensor:
    """Every pixel a whole number of times."""
    _, shape = low.meta()
    times = [int(new) // int(old) if isinstance(new, int) and isinstance(old, int) else 0
             for old, new in zip(x.shape[2:], shape[2:], strict=True)]  # fmt: skip
    if any(not n or not equal(old * n, new) for n, old, new in zip(times, x.shape[2:], shape[2:], strict=True)):
        raise UnsupportedError("pixels are repeated a whole number of times, only")
    dst = low.like_node(x.order)
    spread = (*x.shape[:2], x.shape[2], times[0], x.shape[3], times[1])
    n, c, h, w = dst.strides
    target = dst.view(spread, (n, c, simple(h * times[0]), h, simple(w * times[1]), w))
    sn, sc, sh, sw = x.strides
    low.emit(Op.COPY, target, [x.view(spread, (sn, sc, sh, 0, sw, 0))])
    return dst


@rule("flip.default")
def flip(low: Lowering, x: ir.Tensor, dims: Sequence[int]) -> ir.Tensor:
    """Dims in reverse."""
    offset: Any = 0
    strides = list(x.strides)
    for i in {place(one, len(x.shape)) for one in dims}:
        offset = simple(offset + (x.shape[i] - 1) * x.strides[i])
        strides[i] = simple(-x.strides[i])
    return low.emit(Op.COPY, low.like_node(), [x.view(x.shape, strides, offset)])


@rule("tril.default", "triu.default")
def triangle(low: Lowering, x: ir.Tensor, diagonal: int = 0) -> ir.Tensor:
    """A triangle of a matrix, zeros elsewhere."""
    from atalla.isa import Step
    from atalla.rules.elementwise import Chain

    assert low.node is not None, "a rule has its node"
    dtype, shape = low.meta()
    rows, columns = shape[-2:]
    size = rows if isinstance(rows, int) and isinstance(columns, int) and rows > columns else columns
    numbers = low.emit(Op.IOTA, low.new(Dtype.I64, [size]), start=0.0, step=1.0)
    if not equal(size, rows) and not isinstance(rows, int):
        raise UnsupportedError("a triangle of a matrix of unknown form")
    chain = Chain()
    value = chain.read(x)
    i = chain.read(broadcast(numbers.view((rows, 1), (1, 0)), shape))
    j = chain.read(broadcast(numbers.view((1, columns), (0, 1)), shape))
    lower = "tril" in str(low.node.target)
    moved = chain.step(Step.ADD, i, chain.number(diagonal, as_float=False))
    inside = chain.step(Step.LE if lower else Step.GE, j, moved)
    chain.step(Step.WHERE, inside, value, chain.number(0, as_float=dtype.is_float))
    return low.emit(Op.EW, low.like_node(order_for(shape, [x])), chain.sources, steps=chain.attribute())
