"""Reductions: sums, means and extremes over some of the dims, and running sums."""

from __future__ import annotations

import math
from typing import Any

from atalla import ir
from atalla.dims import product, strides_in_order
from atalla.isa import Dtype, Op, Reduce, Step
from atalla.passes.constraints import Request, float32, has_dims, has_elements
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain
from atalla.passes.rules.views import place

REDUCED = frozenset({Dtype.F32, Dtype.I64, Dtype.I32, Dtype.BOOL})


def reduced(asked: Request) -> bool:
    """Tensors must be float32, int32, int64 or bool; sums of whole numbers int64."""
    return all(one.dtype in REDUCED for one in asked.tensors) and asked.dtype in REDUCED


def sum_type(asked: Request) -> bool:
    """The result of float32 must be float32, that of anything else int64."""
    return asked.dtype is (Dtype.F32 if asked["x"].dtype is Dtype.F32 else Dtype.I64)


def reduce(
    low: Lowering, x: ir.Tensor, kind: Reduce, dims: Any, correction: float = 0.0, dtype: Dtype | None = None
) -> ir.Tensor:
    """Emit a REDUCE for the current node; the dims are kept, with one element, as far as the instruction goes."""
    meant, shape = low.output_type()
    dtype = meant if dtype is None else dtype
    if not x.shape:  # one element is a row of one
        x, dims = x.view((1,), (1,)), [0]
    rank = len(x.shape)
    given = range(rank) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    gone = {place(i, rank) for i in given}
    kept = [1 if i in gone else extent for i, extent in enumerate(x.shape)]
    left = [i for i in range(rank) if i not in gone]
    dense = None
    if len(shape) < rank and x.order is not None:  # they lie in memory as those of the source that are kept
        dense = strides_in_order(shape, [left.index(i) for i in x.order if i not in gone])
    dst = low.new(dtype, shape, dense)
    inner = iter(dst.strides if len(shape) < rank else [dst.strides[i] for i in left])
    strides = [0 if i in gone else next(inner) for i in range(rank)]
    mask = sum(1 << i for i in gone)
    low.emit(Op.REDUCE, dst.view(kept, strides), [x], kind=int(kind), dims=mask, correction=correction)
    return dst


@rule("mean.dim", "mean.default", makes=(Op.REDUCE,), needs=(float32, has_elements))
def mean(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> ir.Tensor:
    """The mean."""
    return reduce(low, x, Reduce.MEAN, dims)


@rule("sum.dim_IntList", "sum.default", makes=(Op.REDUCE,), needs=(reduced, sum_type, has_elements))
def sum_(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False, *, dtype: Any = None) -> ir.Tensor:
    """The sum."""
    return reduce(low, x, Reduce.SUM, dims)


@rule("prod.default", makes=(Op.REDUCE,), needs=(reduced, sum_type, has_elements))
def prod(low: Lowering, x: ir.Tensor, *, dtype: Any = None) -> ir.Tensor:
    """The product of all."""
    return reduce(low, x, Reduce.PROD, None)


@rule("prod.dim_int", makes=(Op.REDUCE,), needs=(reduced, sum_type, has_elements))
def prod_dim(low: Lowering, x: ir.Tensor, dim: int, keepdim: bool = False, *, dtype: Any = None) -> ir.Tensor:
    """The product."""
    return reduce(low, x, Reduce.PROD, dim)


@rule("amax.default", "max.default", makes=(Op.REDUCE,), needs=(reduced, has_elements))
def amax(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """The largest."""
    return reduce(low, x, Reduce.MAX, dims)


@rule("amin.default", "min.default", makes=(Op.REDUCE,), needs=(reduced, has_elements))
def amin(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """The smallest."""
    return reduce(low, x, Reduce.MIN, dims)


for _name, _kinds in {"max": (Reduce.MAX, Reduce.ARGMAX), "min": (Reduce.MIN, Reduce.ARGMIN)}.items():

    @rule(f"{_name}.dim", makes=(Op.REDUCE,), needs=(reduced, has_elements))
    def extreme(
        low: Lowering, x: ir.Tensor, index: int, keepdim: bool = False, *, kinds: tuple[Reduce, Reduce] = _kinds
    ) -> tuple[ir.Tensor, ir.Tensor]:
        """The largest or the smallest, and where the first of them is."""
        return reduce(low, x, kinds[0], index), reduce(low, x, kinds[1], index, dtype=Dtype.I64)

    @rule(f"arg{_name}.default", makes=(Op.REDUCE,), needs=(reduced, has_elements))
    def place_of_extreme(
        low: Lowering, x: ir.Tensor, index: int | None = None, keepdim: bool = False, *, kind: Reduce = _kinds[1]
    ) -> ir.Tensor:
        """Where the largest or the smallest is, the first of equals."""
        return _of_all(low, x, kind) if index is None else reduce(low, x, kind, index)


def truths(asked: Request) -> bool:
    """The tensor must be float32, int32, int64 or bool, the result bool."""
    return all(one.dtype in REDUCED for one in asked.tensors) and asked.dtype is Dtype.BOOL


@rule("any.dim", "any.default", "any.dims", makes=(Op.REDUCE,), needs=(truths, has_elements))
def any_(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """Whether one is not zero."""
    return reduce(low, x, Reduce.ANY, dims)


@rule("all.dim", "all.default", "all.dims", makes=(Op.REDUCE,), needs=(truths, has_elements))
def all_(low: Lowering, x: ir.Tensor, dims: Any = None, keepdim: bool = False) -> ir.Tensor:
    """Whether none is zero."""
    return reduce(low, x, Reduce.ALL, dims)


def _of_all(low: Lowering, x: ir.Tensor, kind: Reduce) -> ir.Tensor:
    """Emit the REDUCE of a tensor as one row."""
    flat = low.contiguous(x)
    dtype, shape = low.output_type()
    dst = low.new(dtype, shape)
    low.emit(
        Op.REDUCE, dst.view((1,), (1,)), [flat.view((product(x.shape),), (1,))], kind=int(kind), dims=1, correction=0.0
    )
    return dst


@rule("var.correction", makes=(Op.REDUCE,), needs=(float32, has_elements))
def var(
    low: Lowering, x: ir.Tensor, dims: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> ir.Tensor:
    """The variance."""
    return reduce(low, x, Reduce.VAR, dims, 1.0 if correction is None else float(correction))


def numbers(asked: Request) -> bool:
    """A median must be of float32, int32 or int64."""
    return asked["x"].dtype in REDUCED - {Dtype.BOOL}


def median_alone(asked: Request) -> bool:
    """Only the median itself must be used, and not where it is: of equals torch takes any."""
    node = asked.low.node
    assert node is not None, "a rule has its node"
    return not any(user.args[1] == 1 and user.users for user in node.users)


@rule("median.dim", makes=(Op.REDUCE,), needs=(numbers, has_elements, median_alone))
def median_dim(low: Lowering, x: ir.Tensor, index: int, keepdim: bool = False) -> tuple[ir.Tensor, None]:
    """The lower one of the two in the middle."""
    return reduce(low, x, Reduce.MEDIAN, index), None


@rule("median.default", makes=(Op.REDUCE,), needs=(numbers, has_elements))
def median(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """The lower one of the two in the middle of all."""
    return _of_all(low, x, Reduce.MEDIAN)


NORMS = {math.inf: Reduce.MAX, -math.inf: Reduce.MIN}


def known_order(asked: Request) -> bool:
    """The order of a norm must be a number that is known when the program is compiled."""
    return isinstance(asked["order"], int | float)


@rule(
    "linalg_vector_norm.default", makes=(Op.EW, Op.REDUCE), needs=(float32, known_order, has_elements),
)  # fmt: skip
def vector_norm(
    low: Lowering, x: ir.Tensor, order: float = 2, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> ir.Tensor:
    """The root of the sum of powers; the largest or the smallest where the order has no end."""
    before = Chain()
    value = before.read(x)
    if order == 0:
        value = before.to(before.truth(value), as_float=True)
    elif order == 2:
        value = before.step(Step.MUL, value, value)
    else:
        value = before.step(Step.ABS, value)
        if abs(order) not in {1, math.inf}:
            value = before.step(Step.POW, value, before.number(order, as_float=True))
    strides = None if x.order is None else strides_in_order(x.shape, x.order)
    powers = low.emit(Op.EW, low.new(x.dtype, x.shape, strides), before.sources, steps=tuple(before.steps))
    total = reduce(low, powers, NORMS.get(order, Reduce.SUM), dims)
    if order in {0, 1, *NORMS}:
        return total
    after = Chain()
    value = after.read(total)
    if order == 2:
        value = after.step(Step.SQRT, value)
    else:
        value = after.step(Step.POW, value, after.number(1 / order, as_float=True))
    return after.emit(low, value)


@rule("cumsum.default", makes=(Op.CUMSUM,), needs=(reduced, sum_type, has_dims))
def cumsum(low: Lowering, x: ir.Tensor, axis: int, *, dtype: Any = None) -> ir.Tensor:
    """The running sum."""
    return low.emit(Op.CUMSUM, low.like_node(), [x], axis=place(axis, len(x.shape)))
