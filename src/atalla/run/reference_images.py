"""Reference, the images: what finds its pixels by numbers; every product is rounded before it is added."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from atalla.isa import Outside, Resize, Sample

if TYPE_CHECKING:
    import torch

    from atalla.ir import Instruction

    Tensors = Sequence[torch.Tensor | None]


def resize(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """RESIZE2D."""
    (src,) = sources
    assert src is not None, "this source is never absent"
    kind = Resize(instruction.whole("kind"))
    for dim, name in ((3, "scale_w"), (2, "scale_h")):
        src = _resized(src, dim, dst.shape[dim], kind, instruction.number(name))
    dst.copy_(src)


def _resized(src: torch.Tensor, dim: int, made: int, kind: Resize, scale: float) -> torch.Tensor:
    """Return an image of another size along one dim."""
    import torch

    have = src.shape[dim]
    if made == have:
        return src
    number = functools.partial(torch.tensor, dtype=torch.float32)
    if kind is Resize.LINEAR_ALIGNED:
        step = number(float(have - 1)) / number(float(made - 1)) if made > 1 else number(0.0)
    else:
        step = number(1.0 / scale) if scale > 0 else number(float(have)) / number(float(made))
    at = torch.arange(made, dtype=torch.float32)
    if kind in {Resize.NEAREST_EXACT, Resize.LINEAR}:
        at = at + 0.5
    at = at * step
    if kind is Resize.LINEAR:
        at = torch.where(at > 0.5, at - 0.5, 0.0)
    first = at.long().clamp(max=have - 1)
    if kind in {Resize.NEAREST, Resize.NEAREST_EXACT}:
        return src.index_select(dim, first)
    second = (first + 1).clamp(max=have - 1)
    share = (at - first).clamp(max=1.0).view([-1 if i == dim else 1 for i in range(4)])
    return (1 - share) * src.index_select(dim, first) + share * src.index_select(dim, second)


def sample(instruction: Instruction, dst: torch.Tensor, sources: Tensors) -> None:
    """SAMPLE2D."""
    import torch

    src, grid = sources
    assert src is not None and grid is not None, "these sources are never absent"
    outside, is_aligned = Outside(instruction.whole("outside")), bool(instruction.whole("aligned"))
    x, y = (_place(grid[..., i], src.shape[3 - i], outside, is_aligned=is_aligned) for i in (0, 1))
    if Sample(instruction.whole("kind")) is Sample.NEAREST:
        parts = [(y.round(), x.round(), torch.ones_like(x))]
    else:
        left, top = x.floor(), y.floor()
        u, v = x - left, y - top
        u0, v0 = (left + 1) - x, (top + 1) - y
        parts = [(top, left, u0 * v0), (top, left + 1, u * v0), (top + 1, left, u0 * v), (top + 1, left + 1, u * v)]
    result = torch.zeros(dst.shape)
    for row, column, weight in parts:
        result += _weighted(src, row.long(), column.long(), weight)
    dst.copy_(result)


def _place(numbers: torch.Tensor, size: int, outside: Outside, *, is_aligned: bool) -> torch.Tensor:
    """Return numbers of a grid as places in a dim of the image."""
    import torch

    moved = numbers + 1
    at = moved / 2 * (size - 1) if is_aligned else (moved * size - 1) / 2
    if outside is Outside.REFLECTION:
        at = _reflected(at, size, is_aligned=is_aligned)
    if outside is not Outside.ZEROS:
        at = torch.where(at > 0, torch.where(at < size - 1, at, float(size - 1)), 0.0)
    return torch.where((at > -(2.0**30)) & (at < 2.0**30), at, -100.0)


def _reflected(at: torch.Tensor, size: int, *, is_aligned: bool) -> torch.Tensor:
    """Return places that are thrown back at the edges as often as it takes."""
    import torch

    least, span = (0.0, size - 1) if is_aligned else (-0.5, size)
    if span <= 0:
        return torch.zeros_like(at)
    away = (at - least).abs()
    rest = away.fmod(span)
    is_even = (away / span).floor().fmod(2) == 0
    return torch.where(is_even, rest + least, (span - rest) + least)


def _weighted(src: torch.Tensor, row: torch.Tensor, column: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return the pixels there, each times its weight; zeros for those that lie outside."""
    import torch

    high, wide = src.shape[2:]
    inside = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
    batch = torch.arange(src.shape[0]).view(-1, 1, 1)
    pixels = src[batch, :, row.clamp(0, high - 1), column.clamp(0, wide - 1)].permute(0, 3, 1, 2)
    return torch.where(inside[:, None], weight[:, None] * pixels, 0.0)
