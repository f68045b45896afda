"""Arithmetic: element-wise functions of numbers; each is a chain of steps."""

from __future__ import annotations

from typing import Any

from atalla import ir
from atalla.isa import Dtype, Op, Step
from atalla.passes.constraints import Request, computed, known_numbers
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, elementwise, plain

EW = (Op.EW,)
NEEDS = (computed, known_numbers)

for _name, _step in {
    "abs": Step.ABS, "neg": Step.NEG, "relu": Step.RELU, "sign": Step.SIGN,
    "floor": Step.FLOOR, "ceil": Step.CEIL, "round": Step.ROUND, "trunc": Step.TRUNC,
}.items():  # fmt: skip

    @rule(f"{_name}.default", makes=EW, needs=NEEDS)
    def _unary(low: Lowering, x: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        if step in {Step.FLOOR, Step.CEIL, Step.ROUND, Step.TRUNC} and not x.dtype.is_float:
            return x
        return elementwise(low, [x], plain(step))


for _name, _step in {
    "sqrt": Step.SQRT, "rsqrt": Step.RSQRT, "reciprocal": Step.RECIPROCAL, "exp": Step.EXP, "log": Step.LOG,
    "log2": Step.LOG2, "log10": Step.LOG10,
    "tanh": Step.TANH, "erf": Step.ERF, "sin": Step.SIN, "cos": Step.COS, "sigmoid": Step.SIGMOID,
    "log1p": Step.LOG1P, "expm1": Step.EXPM1,
    "hardswish": Step.HARDSWISH, "hardsigmoid": Step.HARDSIGMOID, "silu": Step.SILU,
}.items():  # fmt: skip

    @rule(f"{_name}.default", makes=EW, needs=NEEDS)
    def _float_unary(low: Lowering, x: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        return elementwise(low, [x], plain(step), compute=True)


for _name, _step in {"minimum": Step.MIN, "maximum": Step.MAX}.items():

    @rule(f"{_name}.default", makes=EW, needs=NEEDS)
    def _extreme(low: Lowering, a: ir.Tensor, b: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        return elementwise(low, [a, b], plain(step))


@rule("add.Tensor", "add.Scalar", makes=EW, needs=NEEDS)
def add(low: Lowering, a: ir.Tensor, b: Any, alpha: float = 1) -> ir.Tensor:
    """``a + alpha · b``."""
    return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.ADD, x, chain.scaled(y, alpha)))


@rule("sub.Tensor", "sub.Scalar", makes=EW, needs=NEEDS)
def sub(low: Lowering, a: ir.Tensor, b: Any, alpha: float = 1) -> ir.Tensor:
    """``a − alpha · b``."""
    return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.SUB, x, chain.scaled(y, alpha)))


@rule("rsub.Scalar", "rsub.Tensor", makes=EW, needs=NEEDS)
def rsub(low: Lowering, a: ir.Tensor, b: Any, alpha: float = 1) -> ir.Tensor:
    """``b − alpha · a``."""
    return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.SUB, y, chain.scaled(x, alpha)))


@rule("mul.Tensor", "mul.Scalar", makes=EW, needs=NEEDS)
def mul(low: Lowering, a: ir.Tensor, b: Any) -> ir.Tensor:
    """``a · b``; of two bools, whether both are true."""
    return elementwise(low, [a, b], plain(Step.MUL))


def rounds(asked: Request) -> bool:
    """Quotients of floats that are rounded must be float32."""
    return asked["rounding_mode"] is None or not asked.dtype.is_float or asked.dtype is Dtype.F32


@rule("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", makes=EW, needs=(*NEEDS, rounds))
def div(low: Lowering, a: ir.Tensor, b: Any, rounding_mode: str | None = None) -> ir.Tensor:
    """``a / b``, rounded down or toward zero where asked for."""
    if rounding_mode is None:
        return elementwise(low, [a, b], plain(Step.DIV), compute=True)
    if rounding_mode == "floor":
        return elementwise(low, [a, b], plain(Step.FLOOR_DIV))
    if low.output_type()[0].is_float:
        return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.TRUNC, chain.step(Step.DIV, x, y)))
    return elementwise(low, [a, b], _toward_zero)


def _toward_zero(chain: Chain, a: int, b: int) -> int:
    """Return a quotient of whole numbers: one more than rounded down where it is below zero and something is left."""
    zero = chain.number(0, as_float=False)
    rest = chain.step(Step.NE, chain.step(Step.REMAINDER, a, b), zero)
    below = chain.step(Step.NE, chain.step(Step.LT, a, zero), chain.step(Step.LT, b, zero))
    return chain.step(Step.ADD, chain.step(Step.FLOOR_DIV, a, b), chain.step(Step.AND, rest, below))


def quotient(asked: Request) -> bool:
    """The result must be float32 or whole numbers."""
    return not asked.dtype.is_float or asked.dtype is Dtype.F32


@rule("floor_divide.default", makes=EW, needs=(*NEEDS, quotient))
def floor_divide(low: Lowering, a: ir.Tensor, b: Any) -> ir.Tensor:
    """``⌊a / b⌋``."""
    return elementwise(low, [a, b], plain(Step.FLOOR_DIV))


@rule("remainder.Scalar", "remainder.Tensor", makes=EW, needs=NEEDS)
def remainder(low: Lowering, a: ir.Tensor, b: Any) -> ir.Tensor:
    """``a − b · ⌊a / b⌋``."""
    return elementwise(low, [a, b], plain(Step.REMAINDER))


def small_power(asked: Request) -> bool:
    """Of whole numbers the exponent must be 2 or 3."""
    return asked.dtype.is_float or asked["exponent"] in {2, 3}


@rule("pow.Tensor_Scalar", makes=EW, needs=(*NEEDS, small_power))
def pow_scalar(low: Lowering, x: ir.Tensor, exponent: float) -> ir.Tensor:
    """``x ** exponent``; small powers are products, as torch has them."""

    def build(chain: Chain, a: int) -> int:
        square = chain.step(Step.MUL, a, a)
        return square if exponent == 2 else chain.step(Step.MUL, square, a)

    if exponent in {2, 3}:
        return elementwise(low, [x], build)
    short = {0.5: Step.SQRT, -0.5: Step.RSQRT, -1: Step.RECIPROCAL}
    if exponent in short:
        return elementwise(low, [x], plain(short[exponent]), compute=True)
    return elementwise(low, [x, exponent], plain(Step.POW), compute=True)


def float_power(asked: Request) -> bool:
    """The result must be a float."""
    return asked.dtype.is_float


@rule("pow.Tensor_Tensor", "pow.Scalar", makes=EW, needs=(*NEEDS, float_power))
def pow_tensor(low: Lowering, x: Any, exponent: ir.Tensor) -> ir.Tensor:
    """``x ** exponent``."""
    return elementwise(low, [x, exponent], plain(Step.POW), compute=True)


@rule("bitwise_not.default", makes=EW, needs=NEEDS)
def bitwise_not(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Flip all bits; of a bool, the truth."""
    return elementwise(low, [x], plain(Step.NOT if x.dtype is Dtype.BOOL else Step.BIT_NOT), compute=False)


for _name, _step in {"bitwise_and": Step.AND, "bitwise_or": Step.OR, "bitwise_xor": Step.XOR}.items():

    @rule(f"{_name}.Tensor", f"{_name}.Scalar", makes=EW, needs=NEEDS)
    def _bitwise(low: Lowering, a: ir.Tensor, b: Any, *, step: Step = _step) -> ir.Tensor:
        return elementwise(low, [a, b], plain(step), compute=False)
