"""Quantised tensors: int8 around products, sums of two, tables, pools, as PT2E's converted programs have them."""

from __future__ import annotations

from atalla.fuzz.draw import FLOAT, Draw
from atalla.fuzz.operators.products import filters
from atalla.fuzz.operators.table import makes

SPACE = "quantized_decomposed."
INT8 = (-128, 127, "torch.int8")
ACTIVATIONS = ("relu", "relu6", "hardswish", "sigmoid", "hardsigmoid", "tanh", "silu", "gelu")


def scale(draw: Draw, x: str) -> float:
    """Return a step by which most of a value's elements fit into int8."""
    most = float(draw.tensor(x).abs().max()) if draw.tensor(x).numel() else 1.0
    return float(f"{max(most, 0.01) / draw.one(90, 127, 127):.3g}")


def quantize(draw: Draw, x: str) -> tuple[str, tuple[object, ...]]:
    """Return int8 of a value, and the arguments with which it was made."""
    given = (scale(draw, x), draw.one(0, 0, draw.whole(-20, 20)), *INT8)
    return draw.emit(f"{SPACE}quantize_per_tensor.default", x, *given), given


def dequantize(draw: Draw, numbers: str, given: tuple[object, ...]) -> str:
    """Return floats of int8."""
    return draw.emit(f"{SPACE}dequantize_per_tensor.default", numbers, *given)


def rounded(draw: Draw, x: str) -> str:
    """Return a value that went through int8."""
    return dequantize(draw, *quantize(draw, x))


def weight(draw: Draw, *shape: int) -> str:
    """Return a weight that is dequantised, by a step for each channel or by one."""
    numbers = draw.leaf(shape, "int8", role="c", layout="plain")
    if draw.maybe(0.25):
        return draw.emit(f"{SPACE}dequantize_per_tensor.default", numbers, draw.one(0.004, 0.01), 0, *INT8)
    steps, zeros = _steps(draw, shape[0])
    return draw.emit(f"{SPACE}dequantize_per_channel.default", numbers, steps, zeros, 0, *INT8)


def _steps(draw: Draw, count: int) -> tuple[str, str]:
    """Return a scale for each channel, and zero points."""
    steps = draw.leaf((count,), "step", role="c", layout="plain")
    return steps, draw.leaf((count,), "zero", role="c", layout="plain")


@makes(f"{SPACE}quantize_per_tensor.default", f"{SPACE}dequantize_per_tensor.default")
def through_int8(draw: Draw, name: str) -> None:
    rounded(draw, draw.some())


@makes(f"{SPACE}quantize_per_tensor.tensor", f"{SPACE}dequantize_per_tensor.tensor")
def by_tensors(draw: Draw, name: str) -> None:
    """The step and the zero point are tensors, known to the compiler."""
    x = draw.some()
    step = draw.leaf((), "step", role="c", layout="plain")
    zero = draw.leaf((), "zero", role="c", layout="plain")
    numbers = draw.emit(f"{SPACE}quantize_per_tensor.tensor", x, step, zero, *INT8)
    draw.emit(f"{SPACE}dequantize_per_tensor.tensor", numbers, step, zero, *INT8)


@makes(f"{SPACE}quantize_per_channel.default", f"{SPACE}dequantize_per_channel.default")
def by_channel(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, (1, 2, 3, 4))
    axis = draw.whole(0, draw.rank(x) - 1)
    steps, zeros = _steps(draw, draw.shape(x)[axis])
    numbers = draw.emit(f"{SPACE}quantize_per_channel.default", x, steps, zeros, axis, *INT8)
    draw.emit(f"{SPACE}dequantize_per_channel.default", numbers, steps, zeros, axis, *INT8)


def activated(draw: Draw, x: str, share: float = 0.6) -> str:
    """Return a value, perhaps behind an activation."""
    return draw.emit(f"aten.{draw.one('relu', 'relu', *ACTIVATIONS)}.default", x) if draw.maybe(share) else x


def linear(draw: Draw) -> str:
    """Add a linear layer of int8."""
    x = rounded(draw, draw.some(FLOAT, (1, 2, 3)))
    columns = draw.size()
    made = draw.emit("aten.linear.default", x, weight(draw, columns, draw.shape(x)[-1]), *_bias(draw, columns))
    return _stored(draw, activated(draw, made))


def convolution(draw: Draw) -> str:
    """Add a convolution of int8, of rows or images."""
    x = rounded(draw, draw.some(FLOAT, (3, 4, 4, 4)))
    dims = draw.rank(x) - 2
    shape, groups, columns, kernel = filters(draw, draw.shape(x)[1], dims)
    stride, padding = [draw.one(1, 1, 2)] * dims, [draw.whole(0, one // 2) for one in kernel]
    bias = (*_bias(draw, columns), "None")[0]
    given = (stride, padding, [draw.one(1, 1, 2)] * dims, groups)
    made = draw.emit(f"aten.conv{dims}d.default", x, weight(draw, *shape), bias, *given)
    return _stored(draw, activated(draw, made))


def _bias(draw: Draw, count: int) -> tuple[str, ...]:
    return (draw.weight(count),) if draw.maybe(0.7) else ()


def _stored(draw: Draw, x: str) -> str:
    return rounded(draw, x) if draw.maybe(0.85) else x


def pair(draw: Draw) -> str:
    """Add a sum or a product of two, as residuals and gates are."""
    x = rounded(draw, draw.some())
    y = rounded(draw, draw.beside(x))
    made = draw.emit(f"aten.{draw.one('add', 'mul')}.Tensor", x, y)
    return rounded(draw, draw.emit("aten.relu.default", made) if draw.maybe() else made)


def table(draw: Draw) -> str:
    """Add an activation between int8 and int8."""
    return rounded(draw, activated(draw, rounded(draw, draw.some()), 1.0))


def pool(draw: Draw) -> str:
    """Add a pool of int8."""
    numbers, given = quantize(draw, draw.some(FLOAT, 4))
    x = dequantize(draw, numbers, given)
    pooled = draw.emit("aten.max_pool2d.default", x, [draw.one(2, 3)] * 2, [draw.one(1, 2)] * 2, [draw.one(0, 1)] * 2)
    again = draw.emit(f"{SPACE}quantize_per_tensor.default", pooled, *given)
    return dequantize(draw, again, given)


MOTIFS = (linear, linear, convolution, convolution, convolution, pair, pair, table, pool)
"""What programs of int8 are made of."""
