"""Rows and elements by number: taken, put, added to."""

from __future__ import annotations

from atalla.fuzz.draw import ANY, FLOAT, WHOLE, Draw
from atalla.fuzz.operators.table import makes


def _index(draw: Draw, shape: tuple[int, ...], bound: int) -> str:
    return draw.leaf(shape, draw.one("index", "index", "index32"), bound=bound, role=draw.one("x", "x", "c"))


def _places(draw: Draw) -> tuple[int, ...]:
    return draw.one((draw.whole(1, 6),), (2, draw.whole(1, 4)), ())


@makes("embedding.default")
def embedding(draw: Draw, name: str) -> None:
    table = draw.weight(draw.size(), draw.size()) if draw.maybe(0.7) else draw.some(FLOAT, 2)
    draw.emit(name, table, _index(draw, _places(draw), draw.shape(table)[0]))


@makes("index_select.default")
def index_select(draw: Draw, name: str) -> None:
    x = draw.some(ANY, (1, 2, 3, 4))
    dim = draw.dim(x)
    draw.emit(name, x, dim, _index(draw, (draw.whole(1, 6),), draw.shape(x)[dim]))


def _indices(draw: Draw, x: str) -> tuple[list[str], str]:
    """Return what stands between the brackets, and the first index."""
    before, count = draw.whole(0, draw.rank(x) - 1), draw.one(1, 1, 2)
    shape = _places(draw) or (3,)
    found = [_int64(draw, shape, size) for size in draw.shape(x)[before : before + count]]
    return ["None"] * before + found, found[0]


def _int64(draw: Draw, shape: tuple[int, ...], bound: int) -> str:
    return draw.leaf(shape, "index", bound=bound, role=draw.one("x", "c"))


@makes("index.Tensor")
def index(draw: Draw, name: str) -> None:
    x = draw.some(ANY, (1, 2, 3, 4))
    draw.emit(name, x, _indices(draw, x)[0])


@makes("index_put.default", "_unsafe_index_put.default")
def index_put(draw: Draw, name: str) -> None:
    x = draw.some((*FLOAT, *WHOLE), (1, 2, 3, 4))
    if draw.maybe(0.3):
        mask = draw.leaf(draw.shape(x), "bool")
        draw.emit(name, x, [mask], draw.new((), (draw.dtype(x),)))
        return
    places, first = _indices(draw, x)
    if draw.maybe(0.6):  # what is put at one place twice may be either, but sums are the same
        put = draw.new(draw.shape(draw.emit("aten.index.Tensor", x, places)), (draw.dtype(x),))
        draw.emit(name, x, places, put, True)
    else:
        draw.emit(name, x, places, draw.new((), (draw.dtype(x),)), draw.maybe() and len(draw.shape(first)) == 0)


@makes("gather.default")
def gather(draw: Draw, name: str) -> None:
    x = draw.some(ANY, (1, 2, 3, 4))
    dim = draw.whole(0, draw.rank(x) - 1)
    shape = [draw.whole(1, size) for size in draw.shape(x)]
    shape[dim] = draw.whole(1, 5)
    draw.emit(name, x, dim, _int64(draw, tuple(shape), draw.shape(x)[dim]))


def _scattered(draw: Draw) -> tuple[str, int, str, str]:
    """Return where to, the dim, the places, and what is put there."""
    x = draw.some((*FLOAT, *WHOLE), (1, 2, 3, 4))
    dim = draw.whole(0, draw.rank(x) - 1)
    shape = tuple(draw.whole(1, size) for size in draw.shape(x))
    places = _int64(draw, shape, draw.shape(x)[dim])
    return x, dim, places, draw.new(shape, (draw.dtype(x),))


@makes("scatter.src")
def scatter(draw: Draw, name: str) -> None:
    x, dim, places, put = _scattered(draw)
    once = draw.emit("aten.argsort.default", draw.leaf(draw.shape(places), "float"), dim)  # each place once
    draw.emit(name, x, dim, once, put)


@makes("scatter.value")
def scatter_value(draw: Draw, name: str) -> None:
    x, dim, places, _ = _scattered(draw)
    draw.emit(name, x, dim, places, draw.whole(-3, 3))


@makes("scatter_add.default")
def scatter_add(draw: Draw, name: str) -> None:
    draw.emit(name, *_scattered(draw))


@makes("scatter.reduce")
def scatter_combined(draw: Draw, name: str) -> None:
    draw.emit(name, *_scattered(draw), reduce=draw.one("'add'", "'multiply'"))


@makes("scatter_reduce.two")
def scatter_reduce(draw: Draw, name: str) -> None:
    draw.emit(name, *_scattered(draw), draw.one("'sum'", "'prod'", "'amax'", "'amin'"))
