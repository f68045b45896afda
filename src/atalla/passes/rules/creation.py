"""Creation: tensors of numbers, and tensors of another element type."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.isa import Dtype, Op
from atalla.passes.constraints import Request
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import broadcast, order_for


@rule("_to_copy.default", "_to_dim_order_copy.default", makes=(Op.COPY,))
def to_copy(low: Lowering, x: ir.Tensor, **_: Any) -> ir.Tensor:
    """Convert the element type."""
    dtype, shape = low.output_type()
    if dtype is x.dtype:
        return x
    return low.emit(Op.COPY, low.like_node(order_for(shape, [x])), [x])


@rule("copy.default", makes=(Op.COPY,))
def copy(low: Lowering, x: ir.Tensor, value: ir.Tensor, **_: Any) -> ir.Tensor:
    """Another tensor's elements, in the shape and the element type of the first."""
    return low.emit(Op.COPY, low.like_node(order_for(x.shape, [x])), [broadcast(value, x.shape)])


def known_value(asked: Request) -> bool:
    """The number must be known when the program is compiled."""
    return isinstance(asked["value"], bool | int | float)


@rule("full.default", "full_like.default", makes=(Op.FILL,), needs=(known_value,))
def full(low: Lowering, _like: Any, value: Any, **_: Any) -> ir.Tensor:
    """Fill with a number."""
    return low.fill(low.like_node(), value)


@rule("empty.memory_format", "empty_permuted.default", makes=(Op.FILL,))
def empty(low: Lowering, *_: Any, **__: Any) -> ir.Tensor:
    """Zeros: whatever lies in memory is what another wrote there."""
    return low.fill(low.like_node(), 0)


def known_start(asked: Request) -> bool:
    """Start and step must be known when the program is compiled."""
    return all(isinstance(asked[name], int | float) for name in ("start", "step"))


def counted(asked: Request) -> bool:
    """The result must be float32, int32 or int64."""
    return asked.dtype in {Dtype.F32, Dtype.I32, Dtype.I64}


@rule("arange.start_step", makes=(Op.IOTA,), needs=(known_start, counted))
def arange(low: Lowering, start: Any, end: Any, step: Any = 1, **_: Any) -> ir.Tensor:
    """Numbers from start in steps."""
    return low.emit(Op.IOTA, low.like_node(), start=float(start), step=float(step))
