"""Element-wise operators: each is a chain of steps; broadcasting is a view with strides of zero."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from atalla import ir
from atalla.dims import equal
from atalla.isa import Dtype, Op, Step
from atalla.lower import Lowering, UnsupportedError
from atalla.rules import rule

COMPUTED = frozenset(Dtype) - {Dtype.F64}
"""Element types that EW reads and writes; float64 would lose half of its digits."""
MOST_SOURCES = 8


@dataclass
class Chain:
    """An EW instruction while it is made: its sources, and its steps as ``code, a, b, c``."""

    sources: list[ir.Tensor] = field(default_factory=list)
    steps: list[tuple[int, int, int, int]] = field(default_factory=list)
    is_float: list[bool] = field(default_factory=list)
    """Of each value: whether it is a float32, else an int64."""

    def read(self, tensor: ir.Tensor) -> int:
        """Add a source; all of them come before the first step."""
        assert not self.steps, "sources come first"
        if tensor.dtype not in COMPUTED:
            raise UnsupportedError(f"{tensor.dtype.name} is not computed element by element")
        self.sources.append(tensor)
        self.is_float.append(tensor.dtype.is_float)
        return len(self.is_float) - 1

    def step(self, code: Step, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Add a step; give the number of its value."""
        self.steps.append((int(code), a, b, c))
        result = code in _FLOATS or (code in _ANY and self.is_float[b if code is Step.WHERE else a])
        self.is_float.append(result)
        return len(self.is_float) - 1

    def number(self, value: bool | float, *, as_float: bool) -> int:
        """Add a constant."""
        if as_float:
            return self.step(Step.FLOAT, float_bits(float(value)))
        if not -(1 << 31) <= int(value) < 1 << 31:
            raise UnsupportedError(f"the constant {value} has more than 32 bits")
        return self.step(Step.INT, int(value))

    def to(self, value: int, *, as_float: bool) -> int:
        """Convert where it is the other kind."""
        if self.is_float[value] == as_float:
            return value
        return self.step(Step.TO_FLOAT if as_float else Step.TO_INT, value)

    def attribute(self) -> tuple[int, ...]:
        """Give the steps as the instruction holds them."""
        return tuple(number for step in self.steps for number in step)


_ANY = frozenset({
    Step.ADD, Step.SUB, Step.MUL, Step.MIN, Step.MAX, Step.NEG, Step.ABS, Step.RELU, Step.SIGN, Step.WHERE, Step.POW,
    Step.REMAINDER, Step.FLOOR_DIV,
})  # fmt: skip
"""Steps whose result is of the kind of their operands."""
_WHOLE = frozenset({Step.INT, Step.TO_INT, Step.EQ, Step.NE, Step.LT, Step.LE, Step.GT, Step.GE, Step.AND, Step.OR,
                    Step.XOR, Step.NOT, Step.IS_NAN, Step.BIT_NOT})  # fmt: skip
_FLOATS = frozenset(Step) - _ANY - _WHOLE
Build = Callable[..., int]
"""Called with the chain and the numbers of its operands; gives that of the result."""


def float_bits(value: float) -> int:
    """Give the bits of the nearest float32 as an int32."""
    if math.isinf(value) or math.isnan(value) or abs(value) <= 3.4028235677973366e38:
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    return float_bits(math.copysign(math.inf, value))


def broadcast(tensor: ir.Tensor, shape: Sequence[Any]) -> ir.Tensor:
    """Give a view of that shape, repeated elements with a stride of zero."""
    if len(tensor.shape) == len(shape) and all(map(equal, tensor.shape, shape)):
        return tensor
    missing = len(shape) - len(tensor.shape)
    strides: list[Any] = [0] * missing
    for have, want, stride in zip(tensor.shape, shape[missing:], tensor.strides, strict=True):
        strides.append(stride if equal(have, want) else 0)
    return tensor.view(shape, strides)


def order_for(shape: Sequence[Any], sources: Sequence[ir.Tensor]) -> tuple[int, ...] | None:
    """Give the order of dims in memory that most of the sources have: that of the first dense one of full size."""
    for source in sources:
        if len(source.shape) == len(shape) and all(map(equal, source.shape, shape)) and source.order is not None:
            return source.order
    return None


def elementwise(low: Lowering, operands: Sequence[Any], build: Build, compute: bool | None = None) -> ir.Tensor:
    """Emit one EW for the current node.

    Args:
        low: the lowering.
        operands: tensors and numbers.
        build: makes the steps.
        compute: whether operands are brought to float32 (True) or int64 (False) first; None: to what the result is.
    """
    dtype, shape = low.meta()
    if dtype not in COMPUTED:
        raise UnsupportedError(f"{dtype.name} is not computed element by element")
    chain, number = Chain(), dtype.is_float if compute is None else compute
    places = [chain.read(broadcast(one, shape)) if isinstance(one, ir.Tensor) else None for one in operands]
    values = []
    for operand, place in zip(operands, places, strict=True):
        if place is not None:
            values.append(chain.to(place, as_float=number))
        elif isinstance(operand, bool | int | float):
            values.append(chain.number(operand, as_float=number))
        else:
            raise UnsupportedError("a number that is known only at run time")
    result = chain.to(build(chain, *values), as_float=dtype.is_float)
    if not chain.steps or result != len(chain.is_float) - 1:  # the last value is the result
        result = chain.step(Step.ADD, result, chain.number(0, as_float=chain.is_float[result]))
    dst = low.like_node(order_for(shape, chain.sources))
    return low.emit(Op.EW, dst, chain.sources, steps=chain.attribute())


def _plain(code: Step) -> Build:
    return lambda chain, *values: chain.step(code, *values)


for _name, _step in {
    "abs": Step.ABS, "neg": Step.NEG, "relu": Step.RELU, "sign": Step.SIGN,
    "floor": Step.FLOOR, "ceil": Step.CEIL, "round": Step.ROUND, "trunc": Step.TRUNC,
}.items():  # fmt: skip

    @rule(f"{_name}.default")
    def _unary(low: Lowering, x: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        if step in {Step.FLOOR, Step.CEIL, Step.ROUND, Step.TRUNC} and not x.dtype.is_float:
            return x
        return elementwise(low, [x], _plain(step))


for _name, _step in {
    "sqrt": Step.SQRT, "rsqrt": Step.RSQRT, "reciprocal": Step.RECIPROCAL, "exp": Step.EXP, "log": Step.LOG,
    "tanh": Step.TANH, "erf": Step.ERF, "sin": Step.SIN, "cos": Step.COS, "sigmoid": Step.SIGMOID,
    "log1p": Step.LOG1P, "expm1": Step.EXPM1, "hardswish": Step.HARDSWISH, "hardsigmoid": Step.HARDSIGMOID,
    "silu": Step.SILU,
}.items():  # fmt: skip

    @rule(f"{_name}.default")
    def _float_unary(low: Lowering, x: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        return elementwise(low, [x], _plain(step), compute=True)


for _name, _step in {
    "eq": Step.EQ, "ne": Step.NE, "lt": Step.LT, "le": Step.LE, "gt": Step.GT, "ge": Step.GE,
}.items():  # fmt: skip

    @rule(f"{_name}.Tensor", f"{_name}.Scalar")
    def _comparison(low: Lowering, a: ir.Tensor, b: Any, *, step: Step = _step) -> ir.Tensor:
        return elementwise(low, [a, b], _plain(step), compute=_any_float(a, b))


for _name, _step in {"minimum": Step.MIN, "maximum": Step.MAX}.items():

    @rule(f"{_name}.default")
    def _binary(low: Lowering, a: ir.Tensor, b: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        return elementwise(low, [a, b], _plain(step))


for _name, _step in {"logical_and": Step.AND, "logical_or": Step.OR, "logical_xor": Step.XOR}.items():

    @rule(f"{_name}.default")
    def _logical(low: Lowering, a: ir.Tensor, b: ir.Tensor, *, step: Step = _step) -> ir.Tensor:
        def build(chain: Chain, *values: int) -> int:
            return chain.step(step, *(truth(chain, value) for value in values))

        return _mixed(low, [a, b], build)


for _name, _step in {"bitwise_and": Step.AND, "bitwise_or": Step.OR, "bitwise_xor": Step.XOR}.items():

    @rule(f"{_name}.Tensor", f"{_name}.Scalar")
    def _bitwise(low: Lowering, a: ir.Tensor, b: Any, *, step: Step = _step) -> ir.Tensor:
        return elementwise(low, [a, b], _plain(step), compute=False)


def truth(chain: Chain, value: int) -> int:
    """Give 1 where a value is not zero, NaN among them, else 0."""
    return chain.step(Step.NE, value, chain.number(0, as_float=chain.is_float[value]))


def _mixed(low: Lowering, tensors: Sequence[ir.Tensor], build: Build) -> ir.Tensor:
    """Emit one EW whose operands stay what they are."""
    dtype, shape = low.meta()
    chain = Chain()
    values = [chain.read(broadcast(tensor, shape)) for tensor in tensors]
    chain.to(build(chain, *values), as_float=dtype.is_float)
    dst = low.like_node(order_for(shape, chain.sources))
    return low.emit(Op.EW, dst, chain.sources, steps=chain.attribute())


def _any_float(*operands: Any) -> bool:
    return any(o.dtype.is_float if isinstance(o, ir.Tensor) else isinstance(o, float) for o in operands)


@rule("logical_not.default")
def logical_not(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """``x == 0``."""
    return _mixed(low, [x], lambda chain, a: chain.step(Step.EQ, a, chain.number(0, as_float=chain.is_float[a])))


@rule("bitwise_not.default")
def bitwise_not(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Flip all bits; of a bool, the truth."""
    return elementwise(low, [x], _plain(Step.NOT if x.dtype is Dtype.BOOL else Step.BIT_NOT), compute=False)


@rule("isnan.default")
def isnan(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """Whether it is no number."""
    return elementwise(low, [x], _plain(Step.IS_NAN), compute=True)


def _scaled(chain: Chain, value: int, alpha: float) -> int:
    if alpha == 1:
        return value
    return chain.step(Step.MUL, value, chain.number(alpha, as_float=chain.is_float[value]))


@rule("add.Tensor", "add.Scalar")
def add(low: Lowering, a: ir.Tensor, b: Any, alpha: float = 1) -> ir.Tensor:
    """``a + alpha · b``."""
    return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.ADD, x, _scaled(chain, y, alpha)))


@rule("sub.Tensor", "sub.Scalar")
def sub(low: Lowering, a: ir.Tensor, b: Any, alpha: float = 1) -> ir.Tensor:
    """``a − alpha · b``."""
    return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.SUB, x, _scaled(chain, y, alpha)))


@rule("rsub.Scalar", "rsub.Tensor")
def rsub(low: Lowering, a: ir.Tensor, b: Any, alpha: float = 1) -> ir.Tensor:
    """``b − alpha · a``."""
    return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.SUB, y, _scaled(chain, x, alpha)))


@rule("mul.Tensor", "mul.Scalar")
def mul(low: Lowering, a: ir.Tensor, b: Any) -> ir.Tensor:
    """``a · b``; of two bools, whether both are true."""
    return elementwise(low, [a, b], _plain(Step.MUL))


@rule("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def div(low: Lowering, a: ir.Tensor, b: Any, rounding_mode: str | None = None) -> ir.Tensor:
    """``a / b``, rounded down or toward zero where asked for."""
    dtype, _ = low.meta()
    if rounding_mode is None:
        return elementwise(low, [a, b], _plain(Step.DIV), compute=True)
    if dtype.is_float and rounding_mode == "trunc":
        return elementwise(low, [a, b], lambda chain, x, y: chain.step(Step.TRUNC, chain.step(Step.DIV, x, y)))
    if rounding_mode == "floor" and not dtype.is_float and _never_zero(b):
        return elementwise(low, [a, b], _plain(Step.FLOOR_DIV))
    raise UnsupportedError(f"a division that is rounded ({rounding_mode}) has no step for {dtype.name}")


def _never_zero(divisor: Any) -> bool:
    return isinstance(divisor, int) and divisor != 0


@rule("floor_divide.default")
def floor_divide(low: Lowering, a: ir.Tensor, b: Any) -> ir.Tensor:
    """``⌊a / b⌋``."""
    return div(low, a, b, rounding_mode="floor")


@rule("remainder.Scalar", "remainder.Tensor")
def remainder(low: Lowering, a: ir.Tensor, b: Any) -> ir.Tensor:
    """``a − b · ⌊a / b⌋`` of whole numbers."""
    dtype, _ = low.meta()
    if dtype.is_float or not _never_zero(b):
        raise UnsupportedError("a remainder is taken of whole numbers and of a divisor that is known, only")
    return elementwise(low, [a, b], _plain(Step.REMAINDER))


@rule("pow.Tensor_Scalar")
def pow_scalar(low: Lowering, x: ir.Tensor, exponent: float) -> ir.Tensor:
    """``x ** exponent``; small powers are products, as torch has them."""
    dtype, _ = low.meta()
    if exponent == 2:
        return elementwise(low, [x], lambda chain, a: chain.step(Step.MUL, a, a))
    if exponent == 3:
        return elementwise(low, [x], lambda chain, a: chain.step(Step.MUL, chain.step(Step.MUL, a, a), a))
    if not dtype.is_float:
        raise UnsupportedError("powers of whole numbers are computed up to the third")
    known = {0.5: Step.SQRT, -0.5: Step.RSQRT, -1: Step.RECIPROCAL}
    if exponent in known:
        return elementwise(low, [x], _plain(known[exponent]))
    return elementwise(low, [x, exponent], _plain(Step.POW), compute=True)


@rule("pow.Tensor_Tensor", "pow.Scalar")
def pow_tensor(low: Lowering, x: Any, exponent: ir.Tensor) -> ir.Tensor:
    """``x ** exponent`` of floats."""
    dtype, _ = low.meta()
    if not dtype.is_float:
        raise UnsupportedError("powers of whole numbers are computed up to the third")
    return elementwise(low, [x, exponent], _plain(Step.POW), compute=True)


@rule("where.self")
def where(low: Lowering, condition: ir.Tensor, a: Any, b: Any) -> ir.Tensor:
    """``condition ? a : b``."""
    dtype, shape = low.meta()
    chain = Chain()
    operands = [condition, a, b]
    places = [chain.read(broadcast(one, shape)) if isinstance(one, ir.Tensor) else None for one in operands]
    values = [
        place if place is not None else chain.number(one, as_float=dtype.is_float)
        for one, place in zip(operands, places, strict=True)
    ]
    first, second = (chain.to(value, as_float=dtype.is_float) for value in values[1:])
    chain.step(Step.WHERE, values[0], first, second)
    dst = low.like_node(order_for(shape, chain.sources[1:]))
    return low.emit(Op.EW, dst, chain.sources, steps=chain.attribute())


@rule("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(low: Lowering, x: ir.Tensor, mask: ir.Tensor, value: Any) -> ir.Tensor:
    """``mask ? value : x``."""
    return where(low, mask, value, x)


def bounded(chain: Chain, value: int, low: float | None, high: float | None) -> int:
    """Bring a value between two bounds; NaN stays NaN."""
    as_float = chain.is_float[value]
    if low is not None:
        value = chain.step(Step.MAX, value, chain.number(low, as_float=as_float))
    if high is not None:
        value = chain.step(Step.MIN, value, chain.number(high, as_float=as_float))
    return value


@rule("clamp.default")
def clamp(low: Lowering, x: ir.Tensor, least: Any = None, most: Any = None, **named: Any) -> ir.Tensor:
    """``min(max(x, least), most)``."""
    least, most = named.get("min", least), named.get("max", most)
    return elementwise(low, [x], lambda chain, a: bounded(chain, a, least, most))


@rule("clamp_min.default")
def clamp_min(low: Lowering, x: ir.Tensor, least: float) -> ir.Tensor:
    """``max(x, least)``."""
    return elementwise(low, [x], lambda chain, a: bounded(chain, a, least, None))


@rule("clamp_max.default")
def clamp_max(low: Lowering, x: ir.Tensor, most: float) -> ir.Tensor:
    """``min(x, most)``."""
    return elementwise(low, [x], lambda chain, a: bounded(chain, a, None, most))


@rule("hardtanh.default")
def hardtanh(low: Lowering, x: ir.Tensor, least: float = -1, most: float = 1) -> ir.Tensor:
    """``min(max(x, least), most)``."""
    return elementwise(low, [x], lambda chain, a: bounded(chain, a, least, most))


@rule("relu6.default")
def relu6(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """``min(max(x, 0), 6)``."""
    return elementwise(low, [x], lambda chain, a: bounded(chain, a, 0, 6))


@rule("leaky_relu.default")
def leaky_relu(low: Lowering, x: ir.Tensor, slope: float = 0.01) -> ir.Tensor:
    """``x > 0 ? x : slope · x``."""

    def build(chain: Chain, a: int) -> int:
        positive = chain.step(Step.GT, a, chain.number(0, as_float=True))
        return chain.step(Step.WHERE, positive, a, chain.step(Step.MUL, a, chain.number(slope, as_float=True)))

    return elementwise(low, [x], build, compute=True)


@rule("elu.default")
def elu(low: Lowering, x: ir.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> ir.Tensor:
    """``scale · (x > 0 ? x : alpha · (exp(input_scale · x) − 1))``."""

    def build(chain: Chain, a: int) -> int:
        positive = chain.step(Step.GT, a, chain.number(0, as_float=True))
        negative = _scaled(chain, chain.step(Step.EXPM1, _scaled(chain, a, input_scale)), alpha)
        return _scaled(chain, chain.step(Step.WHERE, positive, a, negative), scale)

    return elementwise(low, [x], build, compute=True)


@rule("gelu.default")
def gelu(low: Lowering, x: ir.Tensor, approximate: str = "none") -> ir.Tensor:
    """``x · Φ(x)``; Φ by the error function, or by tanh."""
    return elementwise(low, [x], _plain(Step.GELU if approximate == "none" else Step.GELU_TANH), compute=True)


@rule("softplus.default")
def softplus(low: Lowering, x: ir.Tensor, beta: float = 1, threshold: float = 20) -> ir.Tensor:
    """``log(1 + exp(beta · x)) / beta``; x itself where beta · x is above the threshold."""

    def build(chain: Chain, a: int) -> int:
        large = chain.step(Step.GT, _scaled(chain, a, beta), chain.number(threshold, as_float=True))
        soft = chain.step(Step.LOG1P, chain.step(Step.EXP, _scaled(chain, a, beta)))
        return chain.step(Step.WHERE, large, a, chain.step(Step.DIV, soft, chain.number(beta, as_float=True)))

    return elementwise(low, [x], build, compute=True)


@rule("mish.default")
def mish(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """``x · tanh(log(1 + exp(x)))``."""

    def build(chain: Chain, a: int) -> int:
        large = chain.step(Step.GT, a, chain.number(20, as_float=True))
        soft = chain.step(Step.WHERE, large, a, chain.step(Step.LOG1P, chain.step(Step.EXP, a)))
        return chain.step(Step.MUL, a, chain.step(Step.TANH, soft))

    return elementwise(low, [x], build, compute=True)


@rule("_to_copy.default", "_to_dim_order_copy.default")
def to_copy(low: Lowering, x: ir.Tensor, **_: Any) -> ir.Tensor:
    """Convert the element type."""
    dtype, shape = low.meta()
    if dtype is x.dtype:
        return x
    return low.emit(Op.COPY, low.like_node(order_for(shape, [x])), [x])


@rule("full_like.default")
def full_like(low: Lowering, x: ir.Tensor, value: Any, **_: Any) -> ir.Tensor:
    """Fill with a number."""
    return fill(low, value)


@rule("full.default")
def full(low: Lowering, size: Sequence[Any], value: Any, **_: Any) -> ir.Tensor:
    """Fill with a number."""
    return fill(low, value)


def fill(low: Lowering, value: Any) -> ir.Tensor:
    """Emit a FILL for the current node."""
    if not isinstance(value, bool | int | float):
        raise UnsupportedError("a number that is known only at run time")
    dst = low.like_node()
    whole = 0 if dst.dtype.is_float else int(value)
    return low.emit(Op.FILL, dst, value=float(value), whole=whole)


@rule("arange.start_step")
def arange(low: Lowering, start: Any, end: Any, step: Any = 1, **_: Any) -> ir.Tensor:
    """Numbers from start in steps."""
    dtype, _shape = low.meta()
    if not all(isinstance(one, int | float) for one in (start, step)) or dtype not in {Dtype.F32, Dtype.I64, Dtype.I32}:
        raise UnsupportedError("a range whose start is known only at run time")
    return low.emit(Op.IOTA, low.like_node(), start=float(start), step=float(step))
