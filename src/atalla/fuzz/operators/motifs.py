"""Motifs: neighbours as networks have them, so that what fuses operators has something to fuse."""

from __future__ import annotations

from atalla.fuzz.draw import FLOAT, Draw
from atalla.fuzz.operators.products import convolution, convolve, linear
from atalla.fuzz.operators.reductions import batch_norm

ACTIVATIONS = (
    *("relu", "relu6", "hardswish", "hardsigmoid", "sigmoid", "silu", "gelu", "tanh", "mish", "elu", "leaky_relu"),
    "softplus",
)


def _activated(draw: Draw, x: str) -> str:
    kind = draw.one(*ACTIVATIONS, "clamp", "none", "none")
    if kind == "none":
        return x
    given = (draw.number(-1, 0), draw.number(0.5, 2)) if kind == "clamp" else ()
    return draw.emit(f"aten.{kind}.default", x, *given)


def _added(draw: Draw, x: str) -> str:
    y = draw.like(x) if draw.maybe(0.7) else draw.beside(x)
    return draw.emit("aten.add.Tensor", *draw.one((x, y), (y, x)))


def _followed(draw: Draw, x: str) -> str:
    """Return a product with what comes behind it, in any order."""
    for _ in range(draw.whole(1, 3)):
        x = draw.one(_activated, _added, _added)(draw, x)
    return x


def block(draw: Draw) -> str:
    """Add a convolution, a batch norm, a residual, an activation."""
    x = draw.some(FLOAT, (3, 4, 4, 4, 5))
    dims = draw.rank(x) - 2
    if dims == 3 or draw.maybe(0.25):
        made = convolution(draw, "aten.convolution.default", x)
    else:
        made = convolve(draw, f"aten.conv{dims}d.default", dims, x)
    if draw.maybe(0.6):
        made = batch_norm(draw, "aten._native_batch_norm_legit_no_training.default", made)
    return _followed(draw, made)


def layer(draw: Draw) -> str:
    """Add a linear layer with what follows it."""
    x = draw.some(FLOAT, (1, 2, 3, 4))
    return _followed(draw, linear(draw, "aten.linear.default", x))


def bottleneck(draw: Draw) -> str:
    """Add a convolution of single pixels and a depthwise one behind it, whose input may be needed later."""
    x = draw.some(FLOAT, 4)
    channels, wide, kernel = draw.shape(x)[1], draw.whole(5, 40), draw.one(1, 3, 3, 5)
    given = (draw.weight(wide, channels, 1, 1), draw.weight(wide))
    between = _activated(draw, draw.emit("aten.conv2d.default", x, *given))
    dilation, stride = draw.one(1, 1, 2), draw.one(1, 1, 2, 3)
    padding = kernel // 2 * dilation + draw.one(0, 0, 1)
    given = (draw.weight(wide, 1, kernel, kernel), draw.weight(wide))
    made = draw.emit("aten.conv2d.default", between, *given, [stride] * 2, [padding] * 2, [dilation] * 2, wide)
    return _followed(draw, made)


def gate(draw: Draw) -> str:
    """Add squeeze and excitation."""
    x = draw.some(FLOAT, 4)
    channels = draw.shape(x)[1]
    mean = draw.emit("aten.mean.dim", x, [2, 3], True)
    made = draw.emit("aten.conv2d.default", mean, draw.weight(channels, channels, 1, 1), draw.weight(channels))
    return draw.emit("aten.mul.Tensor", x, draw.emit(f"aten.{draw.one('sigmoid', 'hardsigmoid')}.default", made))


def attention(draw: Draw) -> str:
    """Add attention in eager's words: product, scale, mask, softmax, product."""
    batch, heads, length, others = draw.one(1, 2), draw.one(1, 2, 3), draw.one(1, 5, 16, 17), draw.one(1, 4, 16, 33)
    wide, made = draw.one(4, 8, 16), draw.one(4, 8, 16, 5)
    q = draw.leaf((batch, length, heads, wide), role="x")
    q = draw.emit("aten.transpose.int", q, 1, 2)
    k, v = draw.leaf((batch, heads, others, wide), role="x"), draw.leaf((batch, heads, others, made), role="x")
    scores = draw.emit("aten.matmul.default", q, draw.emit("aten.transpose.int", k, -2, -1))
    scores = draw.emit(f"aten.{draw.one('mul', 'div')}.Scalar", scores, draw.number(0.3, 2))
    if draw.maybe():
        mask = draw.leaf((length, others), draw.one("float", "bool"))
        if draw.dtype(mask) == "bool":
            scores = draw.emit("aten.masked_fill.Scalar", scores, mask, draw.one(-10.0, -1e4))
        else:
            scores = draw.emit("aten.add.Tensor", scores, mask)
    weights = draw.emit("aten.softmax.int", scores, -1)
    return draw.emit("aten.matmul.default", weights, v)


def chain(draw: Draw) -> str:
    """Add element-wise operators, one behind the other."""
    x = draw.some()
    for _ in range(draw.whole(2, 6)):
        kind = draw.one("add", "sub", "mul", "maximum", "act", "act", "scalar")
        if kind == "act":
            x = _activated(draw, x)
        elif kind == "scalar":
            x = draw.emit(f"aten.{draw.one('add', 'mul', 'sub')}.Tensor", x, draw.number())
        else:
            overload = "default" if kind == "maximum" else "Tensor"
            x = draw.emit(f"aten.{kind}.{overload}", x, draw.beside(x))
    return x


def branches(draw: Draw) -> str:
    """Add two ways from one value, that meet in a concatenation."""
    x = draw.some(FLOAT, (2, 3, 4))
    dim = draw.whole(0, draw.rank(x) - 1)
    return draw.emit("aten.cat.default", [_activated(draw, x), _added(draw, x)], dim)


MOTIFS = (block, block, block, bottleneck, layer, layer, gate, attention, chain, chain, branches)
