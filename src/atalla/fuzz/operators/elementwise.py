"""Element-wise operators: arithmetic, functions, comparisons, choices."""

from __future__ import annotations

from atalla.fuzz.draw import ANY, FLOAT, WHOLE, Draw
from atalla.fuzz.operators.table import makes

NUMBERS = (*FLOAT, *WHOLE)
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")


@makes(
    *("sin.default", "cos.default", "exp.default", "erf.default", "expm1.default", "sigmoid.default", "tanh.default"),
    *("silu.default", "mish.default", "hardsigmoid.default", "hardswish.default", "relu6.default"),
)
def function(draw: Draw, name: str) -> None:
    """A smooth function of floats; of whole numbers where torch has it."""
    takes_whole = name.split(".")[1] in {"sin", "cos", "exp", "erf", "expm1", "sigmoid", "tanh"}
    draw.emit(name, draw.some((*FLOAT, *WHOLE, "bool") if takes_whole and draw.maybe(0.15) else FLOAT))


@makes("gelu.default")
def gelu(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(), **({"approximate": "'tanh'"} if draw.maybe() else {}))


@makes("softplus.default")
def softplus(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(), *draw.one((), (draw.number(0.5, 2),), (draw.number(0.5, 2), draw.number(3, 20))))


@makes("elu.default")
def elu(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(), *draw.one((), (draw.number(0.5, 2),), (1.0, draw.number(0.5, 2), draw.number(0.5, 2))))


@makes("leaky_relu.default")
def leaky_relu(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(), *draw.one((), (draw.number(0, 1),)))


@makes("hardtanh.default")
def hardtanh(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(), *draw.one((), (draw.number(-2, 0), draw.number(0, 6))))


@makes("log.default", "log1p.default", "log2.default", "log10.default", "sqrt.default", "rsqrt.default")
@makes("reciprocal.default")
def of_positive(draw: Draw, name: str) -> None:
    """A function of numbers that are not near zero."""
    draw.emit(name, positive(draw))


def positive(draw: Draw, beside: str | None = None) -> str:
    """Return a value of at least a half."""
    if draw.maybe(0.4):
        return draw.leaf(draw.theme if beside is None else draw.shape(beside), "positive")
    x = draw.some() if beside is None else draw.beside(beside)
    return draw.emit("aten.add.Scalar", draw.emit("aten.abs.default", x), 0.5)


@makes("abs.default", "neg.default", "relu.default", "sign.default")
def of_numbers(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some((*FLOAT, *FLOAT, *WHOLE)))


@makes("floor.default", "ceil.default", "round.default", "trunc.default", "isnan.default")
def of_parts(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some((*FLOAT, *FLOAT, "int64")))


@makes("bitwise_not.default")
def bits(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some((*WHOLE, "bool", "uint8")))


@makes("logical_not.default")
def negation(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(ANY))


@makes("logical_and.default", "logical_or.default", "logical_xor.default")
def logic(draw: Draw, name: str) -> None:
    x = draw.some(ANY)
    draw.emit(name, x, draw.beside(x, ANY))


@makes(*(f"bitwise_{one}.Tensor" for one in ("and", "or", "xor")))
def bits_of_two(draw: Draw, name: str) -> None:
    x = draw.some((*WHOLE, "bool", "uint8"))
    draw.emit(name, x, draw.beside(x, (draw.dtype(x), "int64")))


@makes(*(f"bitwise_{one}.Scalar" for one in ("and", "or", "xor")))
def bits_and_a_number(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(WHOLE), draw.whole(-9, 9))


@makes("add.Tensor", "sub.Tensor", "rsub.Tensor")
def sums(draw: Draw, name: str) -> None:
    x = draw.some((*FLOAT, *FLOAT, *FLOAT, *WHOLE, "uint8"))
    y = draw.beside(x, (draw.dtype(x),) if draw.maybe(0.8) else NUMBERS)
    both = {draw.dtype(x), draw.dtype(y)}
    factor = draw.one(2, -1, 0.5 if "float32" in both else 3)
    draw.emit(name, *draw.one((x, y), (y, x)), **({"alpha": factor} if draw.maybe(0.3) else {}))


@makes("mul.Tensor", "maximum.default", "minimum.default")
def of_two(draw: Draw, name: str) -> None:
    x = draw.some((*FLOAT, *FLOAT, *FLOAT, *WHOLE, "uint8"))
    y = draw.beside(x, (draw.dtype(x),) if draw.maybe(0.8) else NUMBERS)
    draw.emit(name, *draw.one((x, y), (y, x)))


@makes("add.Scalar", "sub.Scalar", "rsub.Scalar", "mul.Scalar")
def with_a_number(draw: Draw, name: str) -> None:
    x = draw.some((*FLOAT, *FLOAT, *WHOLE))
    draw.emit(name, x, draw.number() if draw.maybe(0.7) else draw.whole(-4, 4))


@makes("div.Tensor")
def quotient(draw: Draw, name: str) -> None:
    x = draw.some(NUMBERS)
    draw.emit(name, x, positive(draw, x))


@makes("div.Scalar")
def divided(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(NUMBERS), draw.one(2, 3, -0.7, 4.5))


@makes("div.Tensor_mode", "floor_divide.default", "remainder.Tensor")
def rounded_quotient(draw: Draw, name: str) -> None:
    mode = {"rounding_mode": draw.one("'floor'", "'trunc'")} if "mode" in name else {}
    if draw.maybe():
        x = draw.some()
        draw.emit(name, x, positive(draw, x), **mode)
    else:
        x = draw.some(WHOLE)
        draw.emit(name, x, not_zero(draw, x), **mode)


def not_zero(draw: Draw, beside: str) -> str:
    """Return whole numbers, none of them zero."""
    y = draw.beside(beside, WHOLE)
    return draw.emit("aten.add.Scalar", draw.emit("aten.mul.Scalar", y, 2), 1)


@makes("div.Scalar_mode")
def rounded_by_a_number(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(NUMBERS), draw.one(2, 3, -3), rounding_mode=draw.one("'floor'", "'trunc'"))


@makes("remainder.Scalar")
def remainder(draw: Draw, name: str) -> None:
    x = draw.some(NUMBERS)
    draw.emit(name, x, draw.one(2, 3, -3) if draw.dtype(x) != "float32" else draw.one(0.7, -1.3, 2.0))


@makes("pow.Tensor_Scalar")
def power(draw: Draw, name: str) -> None:
    kind = draw.one("small", "root", "whole")
    if kind == "whole":
        draw.emit(name, draw.some(WHOLE), draw.one(2, 3))
    elif kind == "small":
        draw.emit(name, draw.some(), draw.one(2, 3, 2.0, 0, 1, 4))
    else:
        draw.emit(name, positive(draw), draw.one(0.5, -0.5, -1, 1.7, -2))


@makes("pow.Tensor_Tensor")
def power_of_two(draw: Draw, name: str) -> None:
    x = positive(draw)
    draw.emit(name, x, draw.beside(x))


@makes("pow.Scalar")
def exponent(draw: Draw, name: str) -> None:
    draw.emit(name, draw.one(2, 1.5, 0.3), draw.some())


@makes("clamp.default")
def clamp(draw: Draw, name: str) -> None:
    x, low, high = draw.some(NUMBERS), draw.number(-2, 0.4), draw.number(0.5, 2)
    if draw.dtype(x) != "float32":
        low, high = draw.whole(-4, 0), draw.whole(1, 4)
    draw.emit(name, x, *draw.one((low, high), (low,), ("None", high)))


@makes("clamp_min.default", "clamp_max.default")
def bound(draw: Draw, name: str) -> None:
    x = draw.some(NUMBERS)
    draw.emit(name, x, draw.number() if draw.dtype(x) == "float32" else draw.whole(-3, 3))


@makes("clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor")
def bounds(draw: Draw, name: str) -> None:
    x = draw.some(NUMBERS)
    ends = [draw.beside(x, (draw.dtype(x),)) for _ in range(2 if name.startswith("aten.clamp.") else 1)]
    draw.emit(name, x, *ends)


@makes(*(f"{one}.Tensor" for one in COMPARED))
def comparison(draw: Draw, name: str) -> None:
    x = draw.some(ANY)
    draw.emit(name, *draw.one((x, y := draw.beside(x, ANY)), (y, x)))


@makes(*(f"{one}.Scalar" for one in COMPARED))
def comparison_with_a_number(draw: Draw, name: str) -> None:
    x = draw.some(ANY)
    draw.emit(name, x, draw.one(0, 1, 0.5, -1) if draw.dtype(x) == "float32" else draw.one(0, 1, 2))


def condition(draw: Draw, beside: str) -> str:
    """Return truths that broadcast with a value."""
    found = [one for one in draw.names() if draw.dtype(one) == "bool" and draw.shape(one) == draw.shape(beside)]
    return draw.one(*found) if found and draw.maybe(0.7) else draw.beside(beside, ("bool",))


@makes("where.self")
def choice(draw: Draw, name: str) -> None:
    x = draw.some((*FLOAT, *NUMBERS))
    draw.emit(name, condition(draw, x), x, draw.beside(x, (draw.dtype(x),) if draw.maybe(0.8) else NUMBERS))


@makes("where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def choice_of_numbers(draw: Draw, name: str) -> None:
    x = draw.some(NUMBERS)
    number, mask = draw.number(), condition(draw, x)
    overload = name.rpartition(".")[2]
    given = {"ScalarOther": (x, number), "ScalarSelf": (number, x), "Scalar": (number, draw.number())}[overload]
    draw.emit(name, mask, *given)


@makes("masked_fill.Scalar")
def masked(draw: Draw, name: str) -> None:
    x = draw.some(NUMBERS)
    draw.emit(name, x, condition(draw, x), draw.number() if draw.dtype(x) == "float32" else draw.whole(-5, 5))


@makes("masked_fill.Tensor")
def masked_by_a_tensor(draw: Draw, name: str) -> None:
    x = draw.some(NUMBERS)
    draw.emit(name, x, condition(draw, x), draw.new((), (draw.dtype(x),)))
