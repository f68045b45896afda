"""Comparisons: truths of elements, and choices by them."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.isa import Step
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.arithmetic import EW, NEEDS
from atalla.passes.rules.chain import Chain, as_they_are, broadcast, elementwise, plain

for _name, _step in {
    "eq": Step.EQ, "ne": Step.NE, "lt": Step.LT, "le": Step.LE, "gt": Step.GT, "ge": Step.GE,
}.items():  # fmt: skip

    @rule(f"{_name}.Tensor", f"{_name}.Scalar", makes=EW, needs=NEEDS)
    def _comparison(low: Lowering, a: ir.Tensor, b: Any, *, step: Step = _step) -> ir.Tensor:
        as_float = any(one.dtype.is_float if isinstance(one, ir.Tensor) else isinstance(one, float) for one in (a, b))
        return elementwise(low, [a, b], plain(step), compute=as_float)


for _name, _step in {"logical_and": Step.AND, "logical_or": Step.OR, "logical_xor": Step.XOR}.items():

    @rule(f"{_name}.default", makes=EW, needs=NEEDS)
    def _logical(low: Lowering, a: ir.Tensor, b: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        return as_they_are(low, [a, b], lambda chain, x, y: chain.step(step, chain.truth(x), chain.truth(y)))


@rule("logical_not.default", makes=EW, needs=NEEDS)
def logical_not(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """``x == 0``."""
    return as_they_are(low, [x], lambda chain, a: chain.step(Step.EQ, a, chain.number(0, as_float=chain.is_float[a])))


@rule("isnan.default", makes=EW, needs=NEEDS)
def isnan(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Whether it is no number."""
    return elementwise(low, [x], plain(Step.IS_NAN), compute=True)


@rule("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar", makes=EW, needs=NEEDS)
def where(low: Lowering, condition: ir.Tensor, a: Any, b: Any) -> ir.Tensor:
    """``condition ? a : b``."""
    dtype, shape = low.output_type()
    chain = Chain()
    operands = (condition, a, b)
    places = [chain.read(broadcast(one, shape)) if isinstance(one, ir.Tensor) else None for one in operands]
    values = [
        chain.number(one, as_float=dtype.is_float) if place is None else place
        for one, place in zip(operands, places, strict=True)
    ]
    first, second = (chain.to(value, as_float=dtype.is_float) for value in values[1:])
    return chain.emit(low, chain.step(Step.WHERE, values[0], first, second), like=chain.sources[1:])


@rule("masked_fill.Scalar", "masked_fill.Tensor", makes=EW, needs=NEEDS)
def masked_fill(low: Lowering, x: ir.Tensor, mask: ir.Tensor, value: Any) -> ir.Tensor:
    """``mask ? value : x``."""
    return where(low, mask, value, x)
