"""Sums, means, extremes, medians, running sums, softmax, norms."""

from __future__ import annotations

from atalla.fuzz.draw import FLOAT, WHOLE, Draw
from atalla.fuzz.operators.table import makes

REDUCED = (*FLOAT, *FLOAT, *WHOLE)


def _dims(draw: Draw, x: str) -> list[int]:
    dims = [i for i in range(draw.rank(x)) if draw.maybe()]
    return dims or [draw.whole(0, draw.rank(x) - 1)]


@makes("mean.default", "median.default")
def of_all(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some())


@makes("sum.default", "prod.default")
def of_all_numbers(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some((*REDUCED, "bool")))


@makes("amax.default", "amin.default")
def extremes(draw: Draw, name: str) -> None:
    x = draw.some(REDUCED, (1, 2, 3, 4))
    draw.emit(name, x, *draw.one((), (_dims(draw, x),), (_dims(draw, x), True)))


@makes("max.default", "min.default")
def extreme(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(REDUCED))


@makes("max.dim", "min.dim", "median.dim")
def with_places(draw: Draw, name: str) -> None:
    x = draw.some(REDUCED, (1, 2, 3, 4))
    made = draw.emit(name, x, draw.dim(x), *draw.one((), (True,)))
    draw.part(made, 0)
    if "median" not in name and draw.maybe():
        draw.part(made, 1)


@makes("argmax.default", "argmin.default")
def place(draw: Draw, name: str) -> None:
    x = draw.some(REDUCED)
    draw.emit(name, x, *draw.one((), (draw.dim(x),), (draw.dim(x), True)))


@makes("mean.dim", "sum.dim_IntList")
def of_dims(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT if "mean" in name else REDUCED, (1, 2, 3, 4, 5))
    draw.emit(name, x, _dims(draw, x), *draw.one((), (True,)))


@makes("var.correction")
def variance(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, (1, 2, 3, 4))
    draw.emit(name, x, *draw.one((), (_dims(draw, x),)), correction=draw.one(0, 1), keepdim=draw.maybe())


@makes("prod.dim_int")
def product(draw: Draw, name: str) -> None:
    x = draw.some(REDUCED, (1, 2, 3))
    draw.emit(name, x, draw.dim(x), *draw.one((), (True,)))


@makes("any.default", "all.default")
def truth(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(("bool", "bool", "float32", "int64")))


@makes("any.dim", "all.dim")
def truth_of_dim(draw: Draw, name: str) -> None:
    x = draw.some(("bool", "bool", "float32", "int64"), (1, 2, 3, 4))
    draw.emit(name, x, draw.dim(x), *draw.one((), (True,)))


@makes("any.dims", "all.dims")
def truth_of_dims(draw: Draw, name: str) -> None:
    x = draw.some(("bool", "bool", "float32", "int64"), (1, 2, 3, 4))
    draw.emit(name, x, _dims(draw, x), *draw.one((), (True,)))


@makes("linalg_vector_norm.default")
def vector_norm(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, (1, 2, 3, 4))
    order = draw.one(2, 1, 2.0, 3, 0.5, "float('inf')", "float('-inf')", 0)
    draw.emit(name, x, order, *draw.one((), (_dims(draw, x),), (_dims(draw, x), True)))


@makes("cumsum.default")
def running(draw: Draw, name: str) -> None:
    x = draw.some((*REDUCED, "bool"), (1, 2, 3, 4))
    draw.emit(name, x, draw.dim(x))


@makes("softmax.int", "log_softmax.int", "_softmax.default", "_log_softmax.default")
def softmax(draw: Draw, name: str) -> None:
    x = draw.some()
    draw.emit(name, x, draw.dim(x), **({"half_to_float": False} if name.startswith("aten._") else {}))


def _scales(draw: Draw, *shape: int) -> tuple[str, str]:
    """Return weight and bias; each may be absent."""
    return (draw.one("None", draw.weight(*shape, kind="positive")), draw.one("None", draw.weight(*shape)))


@makes("layer_norm.default", "rms_norm.default")
def norm(draw: Draw, name: str) -> None:
    """Over the last dims; an RMS norm has no bias."""
    x = draw.some(FLOAT, (1, 2, 3, 4))
    shape = draw.shape(x)[draw.whole(0, draw.rank(x) - 1) :]
    weight, *bias = _scales(draw, *shape)
    draw.emit(name, x, list(shape), weight, *(bias if "layer" in name else []), draw.one(1e-5, 1e-3))


@makes("group_norm.default")
def group_norm(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, (2, 3, 4, 5))
    channels = draw.shape(x)[1]
    groups = draw.one(*(n for n in range(1, channels + 1) if channels % n == 0))
    draw.emit(name, x, groups, *_scales(draw, channels), 1e-5)


def _statistics(draw: Draw, channels: int) -> tuple[str, ...]:
    return (*_scales(draw, channels), draw.weight(channels), draw.weight(channels, kind="positive"))


@makes("instance_norm.default")
def instance_norm(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, (3, 4, 5))
    channels = draw.shape(x)[1]
    if draw.maybe(0.7):
        draw.emit(name, x, *_scales(draw, channels), "None", "None", True, 0.1, 1e-5, False)
    else:
        draw.emit(name, x, *_statistics(draw, channels), False, 0.1, 1e-5, False)


@makes("_native_batch_norm_legit_no_training.default")
def batch_norm(draw: Draw, name: str, x: str | None = None) -> str:
    x = draw.some(FLOAT, (2, 3, 4, 5)) if x is None else x
    return draw.part(draw.emit(name, x, *_statistics(draw, draw.shape(x)[1]), 0.1, 1e-5), 0)


@makes("_native_batch_norm_legit.no_stats")
def batch_norm_of_itself(draw: Draw, name: str) -> None:
    x = draw.some(FLOAT, (2, 3, 4, 5))
    draw.part(draw.emit(name, x, *_scales(draw, draw.shape(x)[1]), True, 0.1, 1e-3), 0)
