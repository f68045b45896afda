"""Views, copies, and tensors made of numbers."""

from __future__ import annotations

import math

from atalla.fuzz.draw import ANY, FLOAT, Draw
from atalla.fuzz.operators.table import makes

MOVED = (*FLOAT, *FLOAT, *ANY)


@makes("view.default", "reshape.default", "_unsafe_view.default")
def view(draw: Draw, name: str) -> None:
    x = draw.some(MOVED)
    shape = list(draw.shape(x))
    for _ in range(draw.whole(1, 3)):
        place = draw.whole(0, max(len(shape) - 1, 0))
        how = draw.one("join", "split", "one")
        if how == "join" and len(shape) > place + 1:
            shape[place : place + 2] = [shape[place] * shape[place + 1]]
        elif how == "split" and shape:
            factors = [n for n in range(1, shape[place] + 1) if shape[place] % n == 0]
            factor = draw.one(*factors)
            shape[place : place + 1] = [factor, shape[place] // factor]
        elif len(shape) < 6:
            shape.insert(place, 1)
    if shape and name != "aten._unsafe_view.default" and draw.maybe(0.3):
        shape[draw.whole(0, len(shape) - 1)] = -1
    draw.emit(name, x, shape)


@makes("permute.default")
def permute(draw: Draw, name: str) -> None:
    x = draw.some(MOVED)
    order = list(range(draw.rank(x)))
    draw.random.shuffle(order)
    draw.emit(name, x, order)


@makes("transpose.int")
def transpose(draw: Draw, name: str) -> None:
    x = draw.some(MOVED)
    draw.emit(name, x, draw.dim(x), draw.dim(x))


@makes("t.default")
def t(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(MOVED, (0, 1, 2)))


@makes("expand.default")
def expand(draw: Draw, name: str) -> None:
    x = draw.some(MOVED)
    shape = [draw.one(2, 3, 5) if size == 1 else draw.one(size, -1) for size in draw.shape(x)]
    draw.emit(name, x, [*([draw.one(1, 2, 3)] if draw.maybe(0.3) else []), *shape])


@makes("unsqueeze.default")
def unsqueeze(draw: Draw, name: str) -> None:
    x = draw.some(MOVED)
    draw.emit(name, x, draw.whole(-draw.rank(x) - 1, draw.rank(x)))


@makes("squeeze.dim")
def squeeze_dim(draw: Draw, name: str) -> None:
    x = draw.some(MOVED)
    draw.emit(name, x, draw.dim(x))


@makes("squeeze.dims")
def squeeze_dims(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    draw.emit(name, x, [i for i in range(draw.rank(x)) if draw.maybe()])


@makes("select.int")
def select(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim = draw.dim(x)
    size = draw.shape(x)[dim]
    draw.emit(name, x, dim, draw.whole(-size, size - 1))


@makes("slice.Tensor")
def part(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim = draw.dim(x)
    size = draw.shape(x)[dim]
    start = draw.whole(0, size - 1)
    end = draw.one(draw.whole(start + 1, size), 2**63 - 1, size)
    draw.emit(name, x, dim, draw.one(start, start - size), end, *draw.one((), (), (2,), (3,)))


def _cuts(draw: Draw, size: int) -> list[int]:
    first = draw.whole(0, size)
    return draw.one([first, size - first], [size], [first, (size - first) // 2, size - first - (size - first) // 2])


@makes("split_with_sizes.default")
def split_with_sizes(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim = draw.dim(x)
    cuts = _cuts(draw, draw.shape(x)[dim])
    _parts(draw, draw.emit(name, x, cuts, dim), [i for i, size in enumerate(cuts) if size])


@makes("split.Tensor")
def split(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim = draw.dim(x)
    each = draw.whole(1, draw.shape(x)[dim])
    _parts(draw, draw.emit(name, x, each, dim), range(math.ceil(draw.shape(x)[dim] / each)))


@makes("unbind.int")
def unbind(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim = draw.dim(x)
    _parts(draw, draw.emit(name, x, dim), range(draw.shape(x)[dim]))


def _parts(draw: Draw, made: str, numbers: object) -> None:
    for number in draw.random.sample(list(numbers), min(2, len(list(numbers)))):  # type: ignore[call-overload]
        draw.part(made, number)


@makes("diagonal.default")
def diagonal(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (2, 3, 4))
    first, second = draw.random.sample(range(draw.rank(x)), 2)
    draw.emit(name, x, draw.one(0, 0, 1, -1), first, second)


@makes("unfold.default")
def unfold(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim = draw.dim(x)
    draw.emit(name, x, dim, draw.whole(1, draw.shape(x)[dim]), draw.whole(1, 3))


@makes("clone.default", "alias.default", "detach.default", "lift_fresh_copy.default", "contiguous.default")
@makes("squeeze.default")
def same(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(MOVED))


@makes("dropout.default")
def dropout(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(), 0.5, train=False)


@makes("_assert_tensor_metadata.default", "_to_copy.default")
def converted(draw: Draw, name: str) -> None:
    """``to`` is exported with a check of the tensor before it."""
    x = draw.some(MOVED)
    dtype = f"torch.{draw.one('float32', 'int64', 'int32', 'bool', 'float32')}"
    if name == "aten._to_copy.default":
        draw.emit(name, x, dtype=dtype)
    else:
        draw.emit("aten.to.dtype", x, dtype)


@makes("copy.default")
def copy(draw: Draw, name: str) -> None:
    x = draw.some()
    draw.emit(name, x, draw.beside(x))


@makes("cat.default")
def cat(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim = draw.dim(x)
    others = []
    for _ in range(draw.whole(0, 3)):
        shape = list(draw.shape(x))
        shape[dim] = draw.one(shape[dim], draw.size())
        others.append(draw.one(x, draw.new(shape, (draw.dtype(x),))))
    draw.emit(name, draw.one([x, *others], [*others, x]), dim)


@makes("stack.default")
def stack(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (0, 1, 2, 3))
    others = [draw.like(x, (draw.dtype(x),)) for _ in range(draw.whole(0, 3))]
    draw.emit(name, [x, *others], draw.whole(-draw.rank(x) - 1, draw.rank(x)))


@makes("repeat.default")
def repeat(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (0, 1, 2, 3, 4))
    draw.emit(name, x, [draw.one(1, 1, 2, 3) for _ in range(draw.rank(x) + draw.one(0, 0, 1))])


@makes("flip.default")
def flip(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    draw.emit(name, x, [i for i in range(draw.rank(x)) if draw.maybe()] or [0])


@makes("constant_pad_nd.default")
def pad(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    sides = [draw.one(0, 1, 2, 3, -1) for _ in range(2 * draw.whole(1, draw.rank(x)))]
    draw.emit(name, x, sides, *draw.one((), (draw.one(0, 1, 2),)))


@makes("tril.default", "triu.default")
def triangle(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(MOVED, (2, 3, 4)), *draw.one((), (draw.whole(-2, 2),)))


@makes("slice_scatter.default")
def put_part(draw: Draw, name: str) -> None:
    x = draw.some(MOVED, (1, 2, 3, 4))
    dim, shape = draw.whole(0, draw.rank(x) - 1), list(draw.shape(x))
    start = draw.whole(0, shape[dim] - 1)
    end = draw.whole(start + 1, shape[dim])
    shape[dim] = end - start
    draw.emit(name, x, draw.new(shape, (draw.dtype(x),)), dim, start, end)


@makes("full_like.default")
def full_like(draw: Draw, name: str) -> None:
    draw.emit(name, draw.some(ANY), draw.whole(0, 3))


@makes("full.default")
def full(draw: Draw, name: str) -> None:
    value, dtype = draw.one((draw.number(), "torch.float32"), (draw.whole(-5, 5), "torch.int64"), (True, "torch.bool"))
    made = draw.emit(name, list(draw.theme), value, dtype=dtype)
    _add_to(draw, made)


@makes("empty.memory_format", "empty_permuted.default")
def empty(draw: Draw, name: str) -> None:
    """Nobody knows what is in it: it is filled at once."""
    order = [list(range(len(draw.theme)))] if name.startswith("aten.empty_permuted") else []
    made = draw.emit(name, list(draw.theme), *order, dtype="torch.float32")
    draw.emit("aten.full_like.default", made, draw.number())


@makes("arange.start_step")
def arange(draw: Draw, name: str) -> None:
    dtype, step = draw.one(("torch.float32", draw.one(1, 0.5)), ("torch.int64", draw.one(1, 2, -1)))
    count = draw.theme[-1] if draw.theme else 1
    start = draw.whole(-3, 3)
    _add_to(draw, draw.emit(name, start, start + count * step, step, dtype=dtype))


def _add_to(draw: Draw, made: str) -> None:
    """Let what was made of numbers meet a tensor."""
    if draw.maybe(0.7):
        x = draw.some(FLOAT, where=lambda shape: shape[-1:] == draw.shape(made)[-1:])
        draw.emit("aten.add.Tensor", x, made)
