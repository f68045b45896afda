"""Movement: operators that gather and join elements; copies into views of what they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import equal, simple
from atalla.isa import Dtype, Op, Step
from atalla.lower import Lowering
from atalla.rules import rule
from atalla.rules.chain import Chain, broadcast, order_for
from atalla.rules.constraints import Request, computed, has_elements, known_numbers
from atalla.rules.views import permute, place, unsqueeze


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
    _, shape = low.meta()
    at = place(index, len(shape))
    return cat(low, [unsqueeze(low, one, at) for one in tensors], at)


def few_dims(asked: Request) -> bool:
    """Dims and repeated dims must be 8 together, at most."""
    return sum(1 if one == 1 else 2 for one in asked["times"]) <= 8


@rule("repeat.default", needs=(known_numbers, few_dims))
def repeat(low: Lowering, x: ir.Tensor, times: Sequence[int]) -> ir.Tensor:
    """A tensor, so many times along each dim."""
    dst = low.like_node()
    missing = len(times) - len(x.shape)
    shape: list[Any] = []
    into: list[Any] = []
    of: list[Any] = []
    dims = zip(times, (*([1] * missing), *x.shape), dst.strides, (*([0] * missing), *x.strides), strict=True)
    for count, extent, stride, inner in dims:
        if count != 1:
            shape.append(count)
            into.append(simple(extent * stride))
            of.append(0)
        shape.append(extent)
        into.append(stride)
        of.append(inner)
    low.emit(Op.COPY, dst.view(shape, into), [x.view(shape, of)])
    return dst


def rows_by_number(asked: Request) -> bool:
    """Indices must be int32 or int64, and none of the table's dims of size 0."""
    return asked["index"].dtype in {Dtype.I32, Dtype.I64} and not any(equal(n, 0) for n in asked["table"].shape)


@rule("embedding.default", needs=(rows_by_number,))
def embedding(low: Lowering, table: ir.Tensor, index: ir.Tensor, *_: Any, **__: Any) -> ir.Tensor:
    """Rows of a table by their numbers."""
    return low.emit(Op.GATHER, low.like_node(), [low.contiguous(table), index])


@rule("index_select.default", needs=(rows_by_number,))
def index_select(low: Lowering, table: ir.Tensor, axis: int, index: ir.Tensor) -> ir.Tensor:
    """Elements of a dim by their numbers."""
    if not table.shape:
        table = table.view((1,), (1,))
    if not index.shape:
        index = index.view((1,), (1,))
    made = _taken(low, table, place(axis, len(table.shape)), index)
    return made if low.meta()[1] else made.view((), ())


def one_index(asked: Request) -> bool:
    """There must be one tensor of indices, of int32 or int64, and no dim of size 0."""
    given = [one for one in asked["indices"] if one is not None]
    return len(given) == 1 and given[0].dtype in {Dtype.I32, Dtype.I64} and has_elements(asked)


@rule("index.Tensor", needs=(one_index,))
def index_tensor(low: Lowering, x: ir.Tensor, indices: Sequence[ir.Tensor | None]) -> ir.Tensor:
    """Elements of a dim by their numbers, those below zero counted from the end."""
    axis = next(i for i, one in enumerate(indices) if one is not None)
    index = indices[axis]
    assert index is not None, "looked for above"
    chain = Chain()
    number = chain.read(index)
    below = chain.step(Step.LT, number, chain.number(0, as_float=False))
    chain.step(Step.WHERE, below, chain.step(Step.ADD, number, chain.number(x.shape[axis], as_float=False)), number)
    steps = tuple(number for step in chain.steps for number in step)
    return _taken(low, x, axis, low.emit(Op.EW, low.new(index.dtype, index.shape), [index], steps=steps))


def _taken(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor) -> ir.Tensor:
    """Gather along a dim, which comes first in the table and is brought back afterwards."""
    rest = [i for i in range(len(x.shape)) if i != axis]
    table = low.contiguous(permute(low, x, [axis, *rest]))
    dst = low.new(x.dtype, (*index.shape, *(x.shape[i] for i in rest)))
    low.emit(Op.GATHER, dst, [table, index])
    new = len(index.shape)
    return permute(low, dst, [*range(new, new + axis), *range(new), *range(new + axis, len(dst.shape))])


@rule("constant_pad_nd.default", needs=(known_numbers,))
def constant_pad_nd(low: Lowering, x: ir.Tensor, pad: Sequence[Any], value: float = 0) -> ir.Tensor:
    """A frame of one value around a tensor; where it is negative, a part of it."""
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


def whole_times(asked: Request) -> bool:
    """Height and width must be known when the program is compiled, and grow by whole numbers."""
    pairs = list(zip(asked["x"].shape[2:], asked.shape[2:], strict=True))
    return all(isinstance(n, int) for pair in pairs for n in pair) and all(old and new % old == 0 for old, new in pairs)


@rule("upsample_nearest2d.vec", needs=(whole_times,))
def upsample_nearest2d(low: Lowering, x: ir.Tensor, size: Any, factors: Sequence[float] | None) -> ir.Tensor:
    """Every pixel a whole number of times."""
    _, shape = low.meta()
    times = [new // old for old, new in zip(x.shape[2:], shape[2:], strict=True)]
    dst = low.like_node(x.order)
    spread = (*x.shape[:2], x.shape[2], times[0], x.shape[3], times[1])
    n, c, h, w = dst.strides
    target = dst.view(spread, (n, c, simple(h * times[0]), h, simple(w * times[1]), w))
    sn, sc, sh, sw = x.strides
    low.emit(Op.COPY, target, [x.view(spread, (sn, sc, sh, 0, sw, 0))])
    return dst


@rule("flip.default", needs=(has_elements,))
def flip(low: Lowering, x: ir.Tensor, dims: Sequence[int]) -> ir.Tensor:
    """Dims in reverse."""
    offset: Any = 0
    strides = list(x.strides)
    for i in {place(one, len(x.shape)) for one in dims}:
        offset = simple(offset + (x.shape[i] - 1) * x.strides[i])
        strides[i] = simple(-x.strides[i])
    return low.emit(Op.COPY, low.like_node(), [x.view(x.shape, strides, offset)])


def known_form(asked: Request) -> bool:
    """Rows and columns must be known when the program is compiled, or as many."""
    rows, columns = asked.shape[-2:]
    return (isinstance(rows, int) and isinstance(columns, int)) or equal(rows, columns)


@rule("tril.default", "triu.default", needs=(computed, known_numbers, known_form))
def triangle(low: Lowering, x: ir.Tensor, diagonal: int = 0) -> ir.Tensor:
    """A triangle of a matrix, zeros elsewhere."""
    assert low.node is not None, "a rule has its node"
    dtype, shape = low.meta()
    rows, columns = shape[-2:]
    size = columns if equal(rows, columns) else max(rows, columns)
    numbers = low.emit(Op.IOTA, low.new(Dtype.I64, [size]), start=0.0, step=1.0)
    chain = Chain()
    value = chain.read(x)
    i = chain.read(broadcast(numbers.view((rows, 1), (1, 0)), shape))
    j = chain.read(broadcast(numbers.view((1, columns), (0, 1)), shape))
    lower = "tril" in str(low.node.target)
    moved = chain.step(Step.ADD, i, chain.number(diagonal, as_float=False))
    inside = chain.step(Step.LE if lower else Step.GE, j, moved)
    return chain.emit(low, chain.step(Step.WHERE, inside, value, chain.number(0, as_float=dtype.is_float)), like=[x])
