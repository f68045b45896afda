"""Overlap: whether two views of one storage have an element in common."""

from __future__ import annotations

from atalla import ir


def overlap(a: ir.Tensor, b: ir.Tensor) -> bool:
    """Whether two views may share an element; exact where their strides are the same positive numbers."""
    if a.storage is not b.storage:
        return False
    if (
        a.dtype is not b.dtype
        or a.strides != b.strides
        or not all(isinstance(one, int) for one in (*a.shape, *b.shape, *a.strides))
    ):
        return True
    if not isinstance(a.offset, int) or not isinstance(b.offset, int):
        return True
    # An index of one less that of the other, for each dim: from 1 − its extent in b to its extent in a − 1.
    dims = sorted(zip(map(int, a.strides), map(int, a.shape), map(int, b.shape), strict=True), reverse=True)
    if any(extent == 0 for _, *extents in dims for extent in extents):
        return False
    if any(stride <= 0 for stride, *extents in dims if max(extents) > 1):
        return True
    return _reaches(b.offset - a.offset, [one for one in dims if one[0] > 0])


def _reaches(distance: int, dims: list[tuple[int, int, int]]) -> bool:
    """Whether the distance is a sum of differences of indices, each times its stride; the longest stride first."""
    if not dims:
        return distance == 0
    (stride, first, second), rest = dims[0], dims[1:]
    most = sum(step * (one - 1) for step, one, _ in rest)
    least = -sum(step * (other - 1) for step, _, other in rest)
    low, high = max(1 - second, -((most - distance) // stride)), min(first - 1, (distance - least) // stride)
    return any(_reaches(distance - n * stride, rest) for n in range(low, high + 1))
