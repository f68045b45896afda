"""Products: matrices, convolutions of every form, attention."""

from __future__ import annotations

from atalla.fuzz.draw import FLOAT, Draw
from atalla.fuzz.operators.table import makes


@makes("linear.default")
def linear(draw: Draw, name: str, x: str | None = None) -> str:
    x = draw.some(FLOAT, (1, 2, 3, 4)) if x is None else x
    columns = draw.size()
    bias = draw.one((), (draw.weight(columns),))
    return draw.emit(name, x, draw.weight(columns, draw.shape(x)[-1]), *bias)


def _other(draw: Draw, *shape: int) -> str:
    """Return a factor: a weight, or a tensor that only a run knows."""
    found = [one for one in draw.names() if draw.shape(one) == shape and draw.dtype(one) == "float32"]
    if found and draw.maybe():
        return draw.one(*found)
    return draw.weight(*shape) if draw.maybe() else draw.leaf(shape, "small", role="x")


@makes("mm.default")
def mm(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, 2)
    draw.emit(name, x, _other(draw, draw.shape(x)[1], draw.size()))


@makes("bmm.default")
def bmm(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, 3)
    batch, _, depth = draw.shape(x)
    draw.emit(name, x, _other(draw, batch, depth, draw.size()))


@makes("mv.default")
def mv(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, 2)
    draw.emit(name, x, _other(draw, draw.shape(x)[1]))


@makes("dot.default")
def dot(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, 1)
    draw.emit(name, x, _other(draw, *draw.shape(x)))


@makes("matmul.default")
def matmul(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, (1, 2, 3, 4))
    shape = draw.shape(x)
    columns = draw.one((), (draw.size(),), (draw.size(),))
    batches = shape[:-2][draw.whole(0, max(len(shape) - 2, 0)) :] if columns else ()
    draw.emit(name, x, _other(draw, *batches, shape[-1], *columns))


def _factors(draw: Draw) -> dict[str, float]:
    return draw.one({}, {}, {"beta": draw.number()}, {"alpha": draw.number()}, {"beta": 0, "alpha": 1.5})


@makes("addmm.default")
def addmm(draw: Draw, name: str) -> None:
    x, columns = draw.some(FLOAT, 2), draw.size()
    rows, depth = draw.shape(x)
    added = _other(draw, *draw.one((columns,), (rows, columns), (1, columns), (rows, 1)))
    draw.emit(name, added, x, _other(draw, depth, columns), **_factors(draw))


@makes("baddbmm.default")
def baddbmm(draw: Draw, name: str) -> None:
    x, columns = draw.some(FLOAT, 3), draw.size()
    batch, rows, depth = draw.shape(x)
    added = _other(draw, *draw.one((columns,), (batch, rows, columns), (1, rows, columns), (batch, 1, 1)))
    draw.emit(name, added, x, _other(draw, batch, depth, columns), **_factors(draw))


@makes("addmv.default")
def addmv(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, 2)
    rows, depth = draw.shape(x)
    draw.emit(name, _other(draw, rows), x, _other(draw, depth), **_factors(draw))


def filters(draw: Draw, channels: int, dims: int, *, most: int = 3) -> tuple[tuple[int, ...], int, int, list[int]]:
    """Return the weight's shape, the groups, how many channels are made, and the kernel."""
    kernel = [draw.one(1, 2, 3, 3, 5)] * dims if draw.maybe(0.7) else [draw.whole(1, most) for _ in range(dims)]
    kind = draw.one("plain", "plain", "depthwise", "grouped")
    groups = {"plain": 1, "depthwise": channels}.get(kind, 0)
    groups = groups or draw.one(*(n for n in range(1, channels + 1) if channels % n == 0))
    columns = groups * draw.one(1, 1, 2) if kind == "depthwise" else groups * draw.one(1, 3, 4, 8, 16)
    return (columns, channels // groups, *kernel), groups, columns, kernel


def _window(draw: Draw, dims: int) -> tuple[list[int], list[int], list[int]]:
    """Return stride, padding and dilation."""
    stride = [draw.one(1, 1, 2)] * dims if draw.maybe(0.8) else [draw.whole(1, 3) for _ in range(dims)]
    padding = [draw.one(0, 1, 1, 2)] * dims if draw.maybe(0.8) else [draw.whole(0, 2) for _ in range(dims)]
    return stride, padding, [draw.one(1, 1, 1, 2)] * dims


def convolve(draw: Draw, name: str, dims: int, x: str | None = None) -> str:
    """Add a convolution of rows, images or volumes."""
    x = draw.some(FLOAT, dims + 2) if x is None else x
    shape, groups, columns, _ = filters(draw, draw.shape(x)[1], dims)
    stride, padding, dilation = _window(draw, dims)
    bias = draw.one("None", draw.weight(columns))
    if name.endswith("padding"):
        how = draw.one("'same'", "'valid'")
        stride = [1] * dims if how == "'same'" else stride
        return draw.emit(name, x, draw.weight(*shape), bias, stride, how, dilation, groups)
    return draw.emit(name, x, draw.weight(*shape), bias, stride, padding, dilation, groups)


@makes("conv1d.default", "conv1d.padding")
def conv1d(draw: Draw, name: str) -> None:
    convolve(draw, name, 1)


@makes("conv2d.default", "conv2d.padding")
def conv2d(draw: Draw, name: str) -> None:
    convolve(draw, name, 2)


@makes("convolution.default")
def convolution(draw: Draw, name: str, x: str | None = None) -> str:
    """Transposed ones, volumes, and all others."""
    x = draw.some(FLOAT, (3, 4, 4, 5)) if x is None else x
    dims = draw.rank(x) - 2
    shape, groups, columns, _ = filters(draw, draw.shape(x)[1], dims)
    stride, padding, dilation = _window(draw, dims)
    is_transposed, more = draw.maybe(), [0] * dims
    if is_transposed:
        channels = draw.shape(x)[1]
        shape = (channels, columns // groups, *shape[2:])
        more = [draw.whole(0, max(s, d) - 1) for s, d in zip(stride, dilation, strict=True)]
    bias = draw.one("None", draw.weight(columns))
    return draw.emit(name, x, draw.weight(*shape), bias, stride, padding, dilation, is_transposed, more, groups)


@makes("scaled_dot_product_attention.default")
def attention(draw: Draw, name: str) -> None:
    q = draw.some(FLOAT, (3, 4, 4))
    *batch, length, size = draw.shape(q)
    if len(batch) > 2 or length * size > 2000:
        q = draw.leaf((*batch[:1], 2, draw.one(3, 8, 17), draw.one(4, 8, 16)))
        *batch, length, size = draw.shape(q)
    others = draw.one(length, draw.size())
    k, v = (draw.leaf((*batch, others, wide), role="x") for wide in (size, draw.one(size, size, 5)))
    kind = draw.one("plain", "mask", "truths", "causal")
    mask = {
        "mask": lambda: draw.leaf(draw.one((length, others), (*batch, length, others)), "float"),
        "truths": lambda: draw.leaf((length, others), "bool"),
    }.get(kind, lambda: "None")()
    scale = draw.one({}, {"scale": draw.number(0.1, 1)})
    draw.emit(name, q, k, v, mask, 0.0, kind == "causal", **scale)
