"""Dims: extents that are numbers, or expressions of symbols where a program has dynamic shapes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

Dim: TypeAlias = Any
"""Elements: an ``int``, or a ``sympy`` polynomial of the program's symbols (which has no types)."""


def dim(extent: Any) -> Dim:
    """Return the dim of an ``int`` or of torch's ``SymInt``."""
    if isinstance(extent, int):
        return extent
    expression = extent.node.expr if hasattr(extent, "node") else extent
    return int(expression) if expression.is_Integer else expression


def simplify(value: Dim) -> Dim:
    """Return the same dim in the form in which equal ones look alike."""
    if isinstance(value, int):
        return value
    import sympy

    value = sympy.expand(value)
    return int(value) if value.is_Integer else value


def equal(first: Dim, second: Dim) -> bool:
    """Whether two dims are the same whatever the symbols are."""
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return bool(simplify(first - second) == 0)


def product(values: Iterable[Dim]) -> Dim:
    """Multiply."""
    result: Dim = 1
    for value in values:
        result = simplify(result * value)
    return result


def contiguous_strides(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the strides of a dense tensor whose last dim is the innermost."""
    return strides_in_order(shape, range(len(shape)))


def strides_in_order(shape: Sequence[Dim], order: Iterable[int]) -> tuple[Dim, ...]:
    """Return the strides of a dense tensor whose dims lie in memory in ``order``, the outermost first."""
    strides: list[Dim] = [0] * len(shape)
    step: Dim = 1
    for place in reversed(list(order)):
        strides[place] = step
        step = simplify(step * shape[place])
    return tuple(strides)


def strides_of_pixels(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the strides of a dense image, row or volume whose channels, the second dim, are the innermost."""
    return strides_in_order(shape, (0, *range(2, len(shape)), 1))


def reach(offset: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Return the first and the last element of a view, from its root's first; None where it has none."""
    low = high = offset
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return None
        step = (extent - 1) * stride
        low, high = low + min(step, 0), high + max(step, 0)
    return low, high


def overlapping(shape: Sequence[Dim], strides: Sequence[Dim]) -> bool:
    """Whether two elements share memory: a dim that does not step over all smaller ones; symbols never do."""
    dims = [
        (abs(stride), extent)
        for extent, stride in zip(shape, strides, strict=True)
        if isinstance(stride, int) and isinstance(extent, int) and extent != 1
    ]
    if any(extent == 0 for _, extent in dims):
        return False
    below = 0
    for stride, extent in sorted(dims):
        if stride <= below:
            return True
        below += (extent - 1) * stride
    return any(
        isinstance(stride, int) and stride == 0 and not equal(n, 1) for n, stride in zip(shape, strides, strict=True)
    )


def memory_order(shape: Sequence[Dim], strides: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return the order in which the dims of a dense tensor lie in memory; None where it is not dense.

    Dims of one element take the place that keeps the order of the others nearest to that of the numbers.
    """
    import itertools

    if any(equal(extent, 0) for extent in shape):  # what has no elements lies in any order
        return tuple(range(len(shape)))
    large = [i for i, extent in enumerate(shape) if not equal(extent, 1)]
    if all(isinstance(strides[i], int) and isinstance(shape[i], int) for i in large):
        orders: Iterable[tuple[int, ...]] = [tuple(sorted(large, key=lambda i: (-int(strides[i]), i)))]
    else:
        orders = itertools.permutations(large)
    for order in orders:
        step: Dim = 1
        for place in reversed(order):
            if not equal(strides[place], step):
                break
            step = simplify(step * shape[place])
        else:
            found = list(order)
            for place in (i for i in range(len(shape)) if i not in large):
                later = next((n for n, other in enumerate(found) if other > place), len(found))
                found.insert(later, place)
            return tuple(found)
    return None


def reshaped(shape: Sequence[Dim], strides: Sequence[Dim], wanted: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """Return the strides with which the same memory has another shape; None where only a copy has it.

    Groups of dims that lie behind each other in memory are matched, from the last to the first, with groups of the new
    shape of as many elements.
    """
    blocks: list[list[Dim]] = []  # [elements, stride of the innermost], the outermost first
    for extent, stride in zip(shape, strides, strict=True):
        if equal(extent, 1):
            continue
        if blocks and equal(blocks[-1][1], simplify(extent * stride)):
            blocks[-1] = [simplify(blocks[-1][0] * extent), stride]
        else:
            blocks.append([extent, stride])
    result: list[Dim] = [0] * len(wanted)
    place = len(wanted) - 1
    for elements, stride in reversed(blocks):
        taken: Dim = 1
        while not equal(taken, elements):
            if place < 0:
                return None
            result[place] = simplify(stride * taken)
            taken = simplify(taken * wanted[place])
            place -= 1
            if isinstance(taken, int) and isinstance(elements, int) and (taken == 0 or elements % taken):
                return None
    for rest in range(place, -1, -1):
        if not equal(wanted[rest], 1):
            return None
        result[rest] = simplify(result[rest + 1] * wanted[rest + 1]) if rest + 1 < len(wanted) else 1
    return tuple(result)
