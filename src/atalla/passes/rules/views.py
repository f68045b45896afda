"""Views: operators that only give the same memory another shape; no instruction, unless memory cannot be seen so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atalla import ir
from atalla.dims import contiguous_strides, equal, product, reshaped, simplify
from atalla.passes.constraints import Request, known_numbers
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import broadcast


def place(index: int, rank: int) -> int:
    """Return the number of a dim that may be counted from the end."""
    return index + rank if index < 0 else index


def as_rows(x: ir.Tensor) -> ir.Tensor:
    """Return one element as a row of one."""
    return x if x.shape else x.view((1,), (1,))


@rule("view.default", "reshape.default", "_unsafe_view.default")
def view(low: Lowering, x: ir.Tensor, _size: Sequence[Any]) -> ir.Tensor:
    """Other extents, the same elements in the same order."""
    _, shape = low.output_type()
    if any(equal(extent, 0) for extent in shape):  # what has no elements may lie anyhow
        return x.view(shape, contiguous_strides(shape))
    strides = reshaped(x.shape, x.strides, shape)
    if strides is None:
        x, strides = low.contiguous(x), contiguous_strides(shape)
        low.same_size(x.elements, product(shape))
    return x.view(shape, strides)


@rule("permute.default")
def permute(low: Lowering, x: ir.Tensor, order: Sequence[int]) -> ir.Tensor:
    """Dims in another order."""
    order = [place(i, len(order)) for i in order]
    return x.view([x.shape[i] for i in order], [x.strides[i] for i in order])


@rule("transpose.int")
def transpose(low: Lowering, x: ir.Tensor, first: int, second: int) -> ir.Tensor:
    """Two dims exchanged."""
    order = list(range(len(x.shape)))
    first, second = place(first, len(order)), place(second, len(order))
    order[first], order[second] = order[second], order[first]
    return permute(low, x, order)


@rule("t.default")
def t(low: Lowering, x: ir.Tensor) -> ir.Tensor:
    """A matrix transposed."""
    return permute(low, x, list(reversed(range(len(x.shape)))))


@rule("expand.default")
def expand(low: Lowering, x: ir.Tensor, size: Sequence[Any], **_: Any) -> ir.Tensor:
    """Dims of one element repeated."""
    return broadcast(x, low.output_type()[1])


@rule("unsqueeze.default")
def unsqueeze(low: Lowering, x: ir.Tensor, index: int) -> ir.Tensor:
    """One more dim of one element."""
    at = place(index, len(x.shape) + 1)
    stride = simplify(x.strides[at] * x.shape[at]) if at < len(x.shape) else 1
    return x.view((*x.shape[:at], 1, *x.shape[at:]), (*x.strides[:at], stride, *x.strides[at:]))


@rule("squeeze.dims", "squeeze.dim", "squeeze.default")
def squeeze(low: Lowering, x: ir.Tensor, dims: Any = None) -> ir.Tensor:
    """Without dims of one element."""
    given = range(len(x.shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {place(i, len(x.shape)) for i in given if x.shape and equal(x.shape[i], 1)}  # a dim of a number may be named
    kept = [i for i in range(len(x.shape)) if i not in gone]
    return x.view([x.shape[i] for i in kept], [x.strides[i] for i in kept])


@rule("select.int", needs=(known_numbers,))
def select(low: Lowering, x: ir.Tensor, index: int, at: Any) -> ir.Tensor:
    """One element of a dim."""
    index = place(index, len(x.shape))
    at = simplify(at + x.shape[index]) if at < 0 else at
    kept = [i for i in range(len(x.shape)) if i != index]
    return x.view([x.shape[i] for i in kept], [x.strides[i] for i in kept], simplify(at * x.strides[index]))


def known_start(asked: Request) -> bool:
    """Start and step must be known when the program is compiled."""
    return isinstance(asked["start"], int | None) and isinstance(asked["step"], int)


@rule("slice.Tensor", needs=(known_start,))
def slice_(low: Lowering, x: ir.Tensor, index: int = 0, start: Any = None, end: Any = None, step: int = 1) -> ir.Tensor:
    """Every so many-th element of a part of a dim."""
    index = place(index, len(x.shape))
    shape = low.output_type()[1]
    start = 0 if start is None else start
    if start < 0:
        start = simplify(start + x.shape[index])
    if isinstance(start, int) and isinstance(x.shape[index], int):
        start = max(0, min(start, x.shape[index]))
    strides = [stride * step if i == index else stride for i, stride in enumerate(x.strides)]
    return x.view(shape, strides, simplify(start * x.strides[index]))


@rule("split_with_sizes.default")
def split_with_sizes(low: Lowering, x: ir.Tensor, sizes: Sequence[Any], index: int = 0) -> tuple[ir.Tensor, ...]:
    """A dim cut into parts."""
    index, start, parts = place(index, len(x.shape)), 0, []
    for size in sizes:
        parts.append(x.narrow(index, start, size))
        start = simplify(start + size)
    return tuple(parts)


def known_extent(asked: Request) -> bool:
    """The size of the dim must be known when the program is compiled."""
    x = asked["x"]
    return isinstance(x.shape[place(asked["index"], len(x.shape))], int)


@rule("split.Tensor", needs=(known_numbers, known_extent))
def split(low: Lowering, x: ir.Tensor, size: int, index: int = 0) -> tuple[ir.Tensor, ...]:
    """A dim cut into parts of one size; the last may be smaller."""
    extent = x.shape[place(index, len(x.shape))]
    return split_with_sizes(low, x, [min(size, extent - at) for at in range(0, max(extent, 1), max(size, 1))], index)


@rule("unbind.int", needs=(known_extent,))
def unbind(low: Lowering, x: ir.Tensor, index: int = 0) -> tuple[ir.Tensor, ...]:
    """Every element of a dim by itself."""
    extent = x.shape[place(index, len(x.shape))]
    return tuple(select(low, x, index, at) for at in range(extent))


@rule("diagonal.default", needs=(known_numbers,))
def diagonal(low: Lowering, x: ir.Tensor, offset: int = 0, first: int = 0, second: int = 1) -> ir.Tensor:
    """One step in two dims at once, as the last dim."""
    first, second = place(first, len(x.shape)), place(second, len(x.shape))
    kept = [i for i in range(len(x.shape)) if i not in {first, second}]
    start = offset * x.strides[second] if offset > 0 else -offset * x.strides[first]
    step = simplify(x.strides[first] + x.strides[second])
    shape = low.output_type()[1]
    return x.view(shape, [*(x.strides[i] for i in kept), step], simplify(start) if not equal(shape[-1], 0) else 0)


@rule("unfold.default", needs=(known_numbers,))
def unfold(low: Lowering, x: ir.Tensor, index: int, size: int, step: int) -> ir.Tensor:
    """Windows along a dim, which may share elements; what is inside of each comes last."""
    if not x.shape:
        return x.view((size,), (1,))
    index = place(index, len(x.shape))
    strides = [simplify(stride * step) if i == index else stride for i, stride in enumerate(x.strides)]
    return x.view(low.output_type()[1], [*strides, x.strides[index]])


@rule("clone.default", "contiguous.default", "alias.default", "detach.default", "lift_fresh_copy.default")
def same(low: Lowering, x: ir.Tensor, **_: Any) -> ir.Tensor:
    """The same elements: what is never written twice needs no copy."""
    return x


def no_training(asked: Request) -> bool:
    """The model must not be in training."""
    return not (asked["train"] and asked["share"])


@rule("dropout.default", needs=(no_training,))
def dropout(low: Lowering, x: ir.Tensor, share: float, train: bool) -> ir.Tensor:
    """Nothing, outside training."""
    return x


@rule("_assert_tensor_metadata.default")
def nothing(low: Lowering, *_: Any, **__: Any) -> None:
    """What was asserted of types holds: they are the same in every run."""


@rule("_assert_scalar.default")
def assert_scalar(low: Lowering, condition: Any, *_: Any, **__: Any) -> None:
    """What is asserted of sizes is looked at when the sizes of the inputs are known."""
    if hasattr(condition, "free_symbols") and condition.free_symbols:
        low.program.guards.append(condition)


@rule("sym_constrain_range_for_size.default", "sym_constrain_range.default")
def constrained(low: Lowering, *_: Any, **__: Any) -> None:
    """Ranges of sizes are those of the program's symbols."""
