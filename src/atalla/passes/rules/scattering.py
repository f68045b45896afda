"""Gathering and scattering: elements, and rows of elements, that are taken from or put where numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import contiguous_strides, equal, product
from atalla.isa import Dtype, Op, Scatter, Step
from atalla.passes.constraints import Request, has_elements, known_numbers
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast, broadcast_from
from atalla.passes.rules.creation import known_value
from atalla.passes.rules.movement import cat, neighbours, row_numbers
from atalla.passes.rules.views import as_rows, permute, place

WHOLE = frozenset({Dtype.I32, Dtype.I64})
COMBINED = frozenset({Dtype.F32, Dtype.I32, Dtype.I64})
REDUCES = {"sum": Scatter.ADD, "add": Scatter.ADD, "prod": Scatter.MUL, "multiply": Scatter.MUL, "amin": Scatter.MIN,
           "amax": Scatter.MAX}  # fmt: skip


def numbered(asked: Request) -> bool:
    """Indices must be int32 or int64, and the sizes of what they count must be known when the program is compiled."""
    return asked["index"].dtype in WHOLE and all(isinstance(n, int) for n in asked["x"].shape)


def _is_of_rows(x: ir.Tensor, axis: int, index: ir.Tensor) -> bool:
    """Whether an index says of whole rows where they are: it repeats along all other dims, and covers them."""
    return all(
        i == axis or ((equal(stride, 0) or equal(n, 1)) and equal(n, have))
        for i, (n, stride, have) in enumerate(zip(index.shape, index.strides, x.shape, strict=True))
    )


def _of_one_dim(index: ir.Tensor, axis: int) -> ir.Tensor:
    return index.view((index.shape[axis],), (index.strides[axis],))


def _axis_first(low: Lowering, x: ir.Tensor, axis: int) -> ir.Tensor:
    return permute(low, x, [axis, *(i for i in range(len(x.shape)) if i != axis)])


def _axis_back(low: Lowering, x: ir.Tensor, axis: int) -> ir.Tensor:
    return permute(low, x, [*range(1, axis + 1), 0, *range(axis + 1, len(x.shape))])


def _flat_places(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor) -> ir.Tensor:
    """Emit the numbers of elements in a dense tensor, of which an index says one dim's; −1 where it is out of that."""
    strides = contiguous_strides(x.shape)
    others = [i for i in range(len(x.shape)) if i != axis and not equal(index.shape[i], 1)]
    chain = Chain()
    number = chain.read(index)
    counts = []
    for i in others:
        count = low.emit(Op.IOTA, low.new(Dtype.I64, [index.shape[i]]), start=0.0, step=float(strides[i]))
        steps = [1 if dim == i else 0 for dim in range(len(x.shape))]
        shape = [n if dim == i else 1 for dim, n in enumerate(index.shape)]
        counts.append(chain.read(broadcast(count.view(shape, steps), index.shape)))
    zero, extent = (chain.number(n, as_float=False) for n in (0, x.shape[axis]))
    outside = chain.step(Step.OR, chain.step(Step.LT, number, zero), chain.step(Step.GE, number, extent))
    found = number
    if not equal(strides[axis], 1):
        found = chain.step(Step.MUL, number, chain.number(strides[axis], as_float=False))
    for other in counts:
        found = chain.step(Step.ADD, found, other)
    chain.step(Step.WHERE, outside, chain.number(-1, as_float=False), found)  # GATHER and SCATTER refuse it
    return low.emit(Op.EW, low.new(Dtype.I64, index.shape), chain.sources, steps=tuple(chain.steps))


@rule("gather.default", makes=(Op.IOTA, Op.EW, Op.GATHER), needs=(numbered, has_elements))
def gather(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor, **_: Any) -> ir.Tensor:
    """Elements whose place in one dim an index says."""
    shape = low.output_type()[1]
    x, index = as_rows(x), as_rows(index)
    axis = place(axis, len(x.shape))
    if _is_of_rows(x, axis, index):
        table = low.contiguous(_axis_first(low, x, axis))
        dst = low.new(x.dtype, (index.shape[axis], *table.shape[1:]))
        made = _axis_back(low, low.emit(Op.GATHER, dst, [table, _of_one_dim(index, axis)]), axis)
    else:
        table = low.contiguous(x)
        places = _flat_places(low, x, axis, index)
        made = low.emit(Op.GATHER, low.new(x.dtype, index.shape), [table.view((product(x.shape),), (1,)), places])
    return made if shape else made.view((), ())


def combined(asked: Request) -> bool:
    """Elements that are combined with others must be float32, int32 or int64."""
    return asked.dtype in COMBINED


def same_type(asked: Request) -> bool:
    """What is put must have the element type of where it is put."""
    return asked["update"].dtype is asked["x"].dtype


def includes_itself(asked: Request) -> bool:
    """An element must be one of those that it is combined with, by a sum, a product, or the largest or smallest."""
    return asked["reduce"] in REDUCES and bool(asked["include_self"])


def _scattered(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor, update: ir.Tensor, kind: Scatter) -> ir.Tensor:
    """Emit what puts each element of an update where the index says."""
    shape = x.shape
    x, index, update = (as_rows(one) for one in (x, index, update))
    axis = place(axis, len(x.shape))
    update = update.view(index.shape, update.strides)
    if _is_of_rows(x, axis, index):
        base, rows = _axis_first(low, x, axis), low.contiguous(_axis_first(low, update, axis))
        made = _axis_back(low, _put(low, base, _of_one_dim(index, axis), rows, kind), axis)
    else:
        flat = (product(x.shape),)
        places, dense = _flat_places(low, x, axis, index), low.contiguous(update)
        put = _put(low, low.contiguous(x).view(flat, (1,)), places, dense, kind)
        made = put.view(x.shape, contiguous_strides(x.shape))
    return made if shape else made.view((), ())


def _put(low: Lowering, x: ir.Tensor, index: ir.Tensor, update: ir.Tensor, kind: Scatter) -> ir.Tensor:
    return low.emit(Op.SCATTER, low.new(x.dtype, x.shape), [x, index, update], kind=int(kind))


MAKES = (Op.IOTA, Op.EW, Op.SCATTER)


@rule("scatter.src", makes=MAKES, needs=(numbered, same_type, has_elements))
def scatter(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor, update: ir.Tensor) -> ir.Tensor:
    """Elements put where an index says."""
    return _scattered(low, x, axis, index, update, Scatter.SET)


@rule("scatter_add.default", makes=MAKES, needs=(numbered, combined, same_type, has_elements))
def scatter_add(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor, update: ir.Tensor) -> ir.Tensor:
    """Elements added where an index says."""
    return _scattered(low, x, axis, index, update, Scatter.ADD)


@rule(
    "scatter_reduce.two", "scatter.reduce",
    makes=MAKES, needs=(numbered, combined, same_type, includes_itself, has_elements),
)  # fmt: skip
def scatter_reduce(
    low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor, update: ir.Tensor, reduce: str, include_self: bool = True
) -> ir.Tensor:
    """Elements combined with those where an index says."""
    return _scattered(low, x, axis, index, update, REDUCES[reduce])


@rule("scatter.value", makes=(*MAKES, Op.FILL), needs=(numbered, known_value, has_elements))
def scatter_value(low: Lowering, x: ir.Tensor, axis: int, index: ir.Tensor, value: float) -> ir.Tensor:
    """A number put where an index says."""
    update = low.fill(low.new(x.dtype, index.shape), value)
    return _scattered(low, x, axis, index, update, Scatter.SET)


def known_part(asked: Request) -> bool:
    """The part that is put into a dim must be one without gaps, of known size and place."""
    whole = asked["x"].shape[place(asked["axis"], len(asked["x"].shape))]
    return asked["step"] == 1 and all(isinstance(one, int | None) for one in (asked["start"], asked["end"], whole))


@rule("slice_scatter.default", makes=(Op.COPY,), needs=(same_type, known_part))
def slice_scatter(
    low: Lowering,
    x: ir.Tensor,
    update: ir.Tensor,
    axis: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> ir.Tensor:
    """A part of a dim put into the rest of it."""
    axis = place(axis, len(x.shape))
    first, last, _ = slice(start, end).indices(x.shape[axis])
    last = max(first, last)
    return cat(low, [x.narrow(axis, 0, first), update, x.narrow(axis, last, x.shape[axis] - last)], axis)


def put_by_number_or_mask(asked: Request) -> bool:
    """Indices must be int32 or int64, of neighbouring dims whose sizes are known, or one mask for one number."""
    return _mask(asked["indices"], asked["update"], bool(asked["adds"])) is not None or neighbours(asked)


def _mask(indices: Sequence[ir.Tensor | None], update: ir.Tensor, adds: bool) -> ir.Tensor | None:
    """Return the mask that says where one number is put; None where it is anything else."""
    first = indices[0] if len(indices) == 1 else None
    is_mask = first is not None and first.dtype is Dtype.BOOL and equal(product(update.shape), 1) and not adds
    return first if is_mask else None


def adds_numbers(asked: Request) -> bool:
    """Elements that are added to must be float32, int32 or int64."""
    return not asked["adds"] or asked.dtype in COMBINED


@rule(
    "index_put.default", "_unsafe_index_put.default",
    makes=(Op.EW, Op.SCATTER), needs=(known_numbers, put_by_number_or_mask, same_type, adds_numbers),
)  # fmt: skip
def index_put(
    low: Lowering, x: ir.Tensor, indices: Sequence[ir.Tensor | None], update: ir.Tensor, adds: bool = False
) -> ir.Tensor:
    """Elements put, or added, where numbers or a mask say."""
    mask = _mask(indices, update, adds)
    if mask is not None:
        return _masked(low, x, mask, update)
    axes = [i for i, one in enumerate(indices) if one is not None]
    given = [one for one in indices if one is not None]
    rank = max(len(one.shape) for one in given)
    common = _common([one.shape for one in given], rank)
    rows = row_numbers(low, [x.shape[i] for i in axes], given, common)
    before, rest = axes[0], [i for i in range(len(x.shape)) if i not in axes]
    spread = broadcast(update, (*x.shape[:before], *common, *(x.shape[i] for i in rest[before:])))
    order = [*range(before, before + rank), *range(before), *range(before + rank, len(spread.shape))]
    axes_first = [*axes, *rest]
    first = permute(low, x, axes_first)
    shape = (product(x.shape[i] for i in axes), *(x.shape[i] for i in rest))
    base = low.contiguous(first)
    kind = Scatter.ADD if adds else Scatter.SET
    made = _put(
        low, base.view(shape, contiguous_strides(shape)), rows, low.contiguous(permute(low, spread, order)), kind
    )
    whole = made.view(first.shape, contiguous_strides(first.shape))
    return permute(low, whole, [axes_first.index(i) for i in range(len(axes_first))])


def _common(shapes: Sequence[Sequence[Any]], rank: int) -> tuple[Any, ...]:
    """Return the shape to which all are broadcast."""
    found: list[Any] = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if not equal(extent, 1):
                found[i] = extent
    return tuple(found)


def _masked(low: Lowering, x: ir.Tensor, mask: ir.Tensor, update: ir.Tensor) -> ir.Tensor:
    """Emit the choice between an element and the one number."""
    chain = Chain()
    chosen = chain.read(broadcast_from(0, mask, x.shape))
    value = chain.read(broadcast(update.view((), ()), x.shape))
    kept = chain.read(x)
    return chain.emit(low, chain.step(Step.WHERE, chosen, value, kept), like=[x])
