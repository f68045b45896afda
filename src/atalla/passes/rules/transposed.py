"""Transposed convolutions: for each remainder of the output's places by the stride, a convolution of its own.

A place ``o = stride · q + r`` of the output reads the taps ``t`` of which ``r + padding − t · dilation`` is a multiple
of the stride; that quotient, and q, is where in the input. So the places of one remainder are a plain convolution of
stride 1 with some of the taps, in reverse, which writes every so many-th element of the output.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atalla import ir
from atalla.dims import Dim, equal, simplify
from atalla.isa import Op
from atalla.passes.lowering import Lowering, constant, constant_data
from atalla.passes.rules.chain import broadcast_from

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Axis:
    """What is said of one dim of a transposed convolution."""

    taps: int
    stride: int
    padding: int
    dilation: int


@dataclass(frozen=True)
class Part:
    """One remainder along one dim: a convolution of stride 1."""

    start: int
    """The remainder: the first place of the output."""
    count: Dim
    """How many places."""
    taps: tuple[int, ...]
    """Of the weight, in the order in which they meet the input; none where these places hold the bias alone."""
    dilation: int
    before: int
    """Padding in front of the input; below zero so many elements of it are left out."""
    after: int
    """Padding behind it, or more."""


def parts_of(axis: Axis, have: Dim, made: Dim) -> Iterator[Part]:
    """Give the parts of a dim that is ``have`` long before, and ``made`` long afterwards."""
    more = simplify(made - axis.stride * have)  # a number whatever the sizes are
    common = math.gcd(axis.stride, axis.dilation)
    for start in range(axis.stride):
        count = simplify(have + (more - start + axis.stride - 1) // axis.stride)
        if isinstance(count, int) and count <= 0:
            continue
        places = [
            ((start + axis.padding - tap * axis.dilation) // axis.stride, tap)
            for tap in range(axis.taps)
            if (start + axis.padding - tap * axis.dilation) % axis.stride == 0
        ]
        places.sort()
        first, last = (places[0][0], places[-1][0]) if places else (0, 0)
        after = last + (more - start + axis.stride - 1) // axis.stride
        taps = tuple(tap for _, tap in places)
        yield Part(start, count, taps, axis.dilation // common, -first, max(after, 0))


def filters(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Return a weight ``[C, M / groups, …]`` as a convolution has it, ``[M, C / groups, …]``."""
    channels, columns, *taps = weight.shape
    split = weight.reshape(groups, channels // groups, columns, *taps).transpose(1, 2)
    return split.reshape(groups * columns, channels // groups, *taps)


@dataclass(frozen=True)
class Piece:
    """One remainder along each dim: what a plain convolution reads, writes and weighs."""

    dst: ir.Tensor
    x: ir.Tensor
    weight: ir.Tensor
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilation: tuple[int, ...]


def pieces(
    low: Lowering,
    x: ir.Tensor,
    dst: ir.Tensor,
    sources: tuple[ir.Tensor, ir.Tensor | None],
    axes: Sequence[Axis],
    groups: int,
) -> Iterator[Piece]:
    """Give the convolutions that make ``dst``; places without a tap are filled here."""
    weight, bias = sources
    data = constant_data(weight)
    assert data is not None, "a constraint of the rule"
    taps = filters(data, groups)
    every = [list(parts_of(axis, *sizes)) for axis, *sizes in zip(axes, x.shape[2:], dst.shape[2:], strict=True)]
    for number, parts in enumerate(itertools.product(*every)):
        steps = [stride * axis.stride for stride, axis in zip(dst.strides[2:], axes, strict=True)]
        corner = simplify(sum(part.start * stride for part, stride in zip(parts, dst.strides[2:], strict=True)))
        place = dst.view((*dst.shape[:2], *(one.count for one in parts)), (*dst.strides[:2], *steps), corner)
        view = _without(x, [max(-one.before, 0) for one in parts])
        if not all(one.taps for one in parts) or any(isinstance(n, int) and n <= 0 for n in view.shape):
            _fill(low, place, bias)
            continue
        some = taps
        for dim, one in enumerate(parts):
            some = some.index_select(2 + dim, _numbers(one.taps))
        yield Piece(
            place,
            view,
            constant(some.contiguous(), f"{weight.name}.{number}"),
            tuple(max(one.before, 0) for one in parts),
            tuple(one.after for one in parts),
            tuple(one.dilation for one in parts),
        )


def _numbers(values: Sequence[int]) -> torch.Tensor:
    import torch

    return torch.tensor(values)


def _without(x: ir.Tensor, first: Sequence[int]) -> ir.Tensor:
    """Return an image without the first elements of its dims."""
    shape = [simplify(n - gone) for n, gone in zip(x.shape[2:], first, strict=True)]
    if any(isinstance(n, int) and n <= 0 for n in shape):
        return x.view((*x.shape[:2], *(0 for _ in shape)), x.strides)
    offset = simplify(sum(gone * stride for gone, stride in zip(first, x.strides[2:], strict=True)))
    return x.view((*x.shape[:2], *shape), x.strides, offset)


def _fill(low: Lowering, place: ir.Tensor, bias: ir.Tensor | None) -> None:
    """Write the bias alone."""
    if bias is None:
        low.fill(place, 0)
        return
    low.emit(Op.COPY, place, [broadcast_from(1, bias, place.shape)])


def fits(axis: Axis, have: Dim, made: Dim) -> bool:
    """Whether the number of places of each part is known, or grows with the input alone."""
    return isinstance(simplify(made - axis.stride * have), int) and not equal(have, 0)
