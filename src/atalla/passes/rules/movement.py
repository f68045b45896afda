"""Movement: operators that gather and join elements; copies into views of what they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import contiguous_strides, equal, product, simplify, strides_in_order
from atalla.isa import Dtype, Op, Step
from atalla.passes.constraints import Request, computed, has_elements, known_numbers
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast, order_for
from atalla.passes.rules.views import as_rows, permute, place, unsqueeze


@rule("cat.default", makes=(Op.COPY,))
def cat(low: Lowering, tensors: Sequence[ir.Tensor], index: int = 0) -> ir.Tensor:
    """Tensors behind each other along a dim."""
    dtype, shape = low.output_type()
    tensors = [one for one in tensors if not (len(one.shape) == 1 and equal(one.shape[0], 0) and len(shape) > 1)]
    orders = {one.order for one in tensors} - {None}
    dst = low.like_node(orders.pop() if len(orders) == 1 else None)
    index, start = place(index, len(shape)), 0
    for one in tensors:
        part = dst.view(one.shape, dst.strides, simplify(start * dst.strides[index]))
        low.emit(Op.COPY, part, [one])
        start = simplify(start + one.shape[index])
    assert dst.dtype is dtype, "an output has the element type of its node"
    return dst


@rule("stack.default", makes=(Op.COPY,))
def stack(low: Lowering, tensors: Sequence[ir.Tensor], index: int = 0) -> ir.Tensor:
    """Tensors side by side along a new dim."""
    _, shape = low.output_type()
    at = place(index, len(shape))
    return cat(low, [unsqueeze(low, one, at) for one in tensors], at)


def few_dims(asked: Request) -> bool:
    """Dims and repeated dims must be 8 together, at most."""
    return sum(1 if one == 1 else 2 for one in asked["times"]) <= 8


@rule("repeat.default", makes=(Op.COPY,), needs=(known_numbers, few_dims))
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
            into.append(simplify(extent * stride))
            of.append(0)
        shape.append(extent)
        into.append(stride)
        of.append(inner)
    low.emit(Op.COPY, dst.view(shape, into), [x.view(shape, of)])
    return dst


def rows_by_number(asked: Request) -> bool:
    """Indices must be int32 or int64, and none of the table's dims of size 0."""
    return asked["index"].dtype in {Dtype.I32, Dtype.I64} and not any(equal(n, 0) for n in asked["table"].shape)


@rule("embedding.default", makes=(Op.GATHER,), needs=(rows_by_number,))
def embedding(low: Lowering, table: ir.Tensor, index: ir.Tensor, *_: Any, **__: Any) -> ir.Tensor:
    """Rows of a table by their numbers."""
    return low.emit(Op.GATHER, low.like_node(), [low.contiguous(table), index])


@rule("index_select.default", makes=(Op.GATHER,), needs=(rows_by_number,))
def index_select(low: Lowering, table: ir.Tensor, axis: int, index: ir.Tensor) -> ir.Tensor:
    """Elements of a dim by their numbers."""
    table, index = as_rows(table), as_rows(index)
    made = _taken(low, table, [place(axis, len(table.shape))], index)
    return made if low.output_type()[1] else made.view((), ())


def neighbours(asked: Request) -> bool:
    """Indices must be int32 or int64, of neighbouring dims whose sizes are known, and no dim of size 0."""
    places = [i for i, one in enumerate(asked["indices"]) if one is not None]
    given = [asked["indices"][i] for i in places]
    return (
        bool(places)
        and places == list(range(places[0], places[-1] + 1))
        and all(one.dtype in {Dtype.I32, Dtype.I64} for one in given)
        and all(isinstance(asked["x"].shape[i], int) for i in places)
        and has_elements(asked)
    )


@rule("index.Tensor", makes=(Op.EW, Op.GATHER), needs=(neighbours,))
def index_tensor(low: Lowering, x: ir.Tensor, indices: Sequence[ir.Tensor | None]) -> ir.Tensor:
    """Elements of some dims by their numbers, those below zero counted from the end."""
    places = [i for i, one in enumerate(indices) if one is not None]
    given = [one for one in indices if one is not None]
    rank = max(len(one.shape) for one in given)
    first = places[0]
    shape = low.output_type()[1][first : first + rank]
    return _taken(low, x, places, row_numbers(low, [x.shape[i] for i in places], given, shape))


def row_numbers(low: Lowering, extents: Sequence[Any], given: Sequence[ir.Tensor], shape: Sequence[Any]) -> ir.Tensor:
    """Emit the numbers of rows in dims that become one, of each of which a tensor says the place; −1 for none."""
    chain = Chain()
    numbers = [chain.read(broadcast(one, shape)) for one in given]
    zero = chain.number(0, as_float=False)
    row, outside = zero, zero
    for number, size in zip(numbers, extents, strict=True):
        extent = chain.number(size, as_float=False)
        below = chain.step(Step.LT, number, zero)
        counted = chain.step(Step.WHERE, below, chain.step(Step.ADD, number, extent), number)
        wrong = chain.step(Step.OR, chain.step(Step.LT, counted, zero), chain.step(Step.GE, counted, extent))
        outside = chain.step(Step.OR, outside, wrong)
        row = chain.step(Step.ADD, chain.step(Step.MUL, row, extent), counted)
    chain.step(Step.WHERE, outside, chain.number(-1, as_float=False), row)  # GATHER and SCATTER refuse it
    return low.emit(Op.EW, low.new(Dtype.I64, shape), chain.sources, steps=tuple(chain.steps))


def _taken(low: Lowering, x: ir.Tensor, axes: Sequence[int], rows: ir.Tensor) -> ir.Tensor:
    """Gather along neighbouring dims, which come first in the table as one, and are brought back afterwards."""
    rest = [i for i in range(len(x.shape)) if i not in axes]
    table = low.contiguous(permute(low, x, [*axes, *rest]))
    shape = [product(x.shape[i] for i in axes), *(x.shape[i] for i in rest)]
    dst = low.new(x.dtype, (*rows.shape, *shape[1:]))
    low.emit(Op.GATHER, dst, [table.view(shape, contiguous_strides(shape)), rows])
    new, before = len(rows.shape), axes[0]
    return permute(low, dst, [*range(new, new + before), *range(new), *range(new + before, len(dst.shape))])


@rule("constant_pad_nd.default", makes=(Op.FILL, Op.COPY), needs=(known_numbers,))
def constant_pad_nd(low: Lowering, x: ir.Tensor, pad: Sequence[Any], value: float = 0) -> ir.Tensor:
    """A frame of one value around a tensor; where it is negative, a part of it."""
    rank = len(x.shape)
    before, after = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    return framed(low, x, before, after, value)


def framed(low: Lowering, x: ir.Tensor, before: Sequence[int], after: Sequence[int], value: float = 0) -> ir.Tensor:
    """Return a tensor with so many elements of one value in front of each dim and behind it, or without so many."""
    rank = len(x.shape)
    shape = [simplify(n + b + a) for n, b, a in zip(x.shape, before, after, strict=True)]
    inner = [simplify(n + min(b, 0) + min(a, 0)) for n, b, a in zip(x.shape, before, after, strict=True)]
    inside: Any = 0
    for size, stride in zip(before, x.strides, strict=True):
        inside = simplify(inside + max(-size, 0) * stride)
    kept = x.view(inner, x.strides, inside)
    if not any(one > 0 for one in (*before, *after)):
        return kept
    order = order_for(shape, [x]) or x.order
    dst = low.new(x.dtype, shape, None if order is None else strides_in_order(shape, order))
    rest, corner = list(shape), 0
    for i in range(rank):  # parts of the frame that share no element: whatever is written first, is right
        for size, start in ((before[i], 0), (after[i], simplify(max(before[i], 0) + inner[i]))):
            if size > 0:
                part = dst.view(
                    (*rest[:i], size, *rest[i + 1 :]), dst.strides, simplify(corner + start * dst.strides[i])
                )
                low.fill(part, value)
        rest[i] = inner[i]
        corner = simplify(corner + max(before[i], 0) * dst.strides[i])
    if not any(equal(extent, 0) for extent in inner):
        low.emit(Op.COPY, dst.view(inner, dst.strides, corner), [kept])
    return dst


@rule("flip.default", makes=(Op.COPY,), needs=(has_elements,))
def flip(low: Lowering, x: ir.Tensor, dims: Sequence[int]) -> ir.Tensor:
    """Dims in reverse."""
    offset: Any = 0
    strides = list(x.strides)
    for i in {place(one, len(x.shape)) for one in dims}:
        offset = simplify(offset + (x.shape[i] - 1) * x.strides[i])
        strides[i] = simplify(-x.strides[i])
    return low.emit(Op.COPY, low.like_node(), [x.view(x.shape, strides, offset)])


def known_form(asked: Request) -> bool:
    """Rows and columns must be known when the program is compiled, or as many."""
    rows, columns = asked.shape[-2:]
    return (isinstance(rows, int) and isinstance(columns, int)) or equal(rows, columns)


@rule("tril.default", "triu.default", makes=(Op.IOTA, Op.EW), needs=(computed, known_numbers, known_form))
def triangle(low: Lowering, x: ir.Tensor, diagonal: int = 0) -> ir.Tensor:
    """A triangle of a matrix, zeros elsewhere."""
    assert low.node is not None, "a rule has its node"
    dtype, shape = low.output_type()
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
