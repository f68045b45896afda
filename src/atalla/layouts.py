"""Layouts: weights in the orders of :class:`~atalla.isa.Layout`, and back; plain definitions in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from atalla.isa import PANEL

if TYPE_CHECKING:
    import torch


def pack_panels(weight: torch.Tensor, groups: int) -> torch.Tensor:
    """Return ``[groups, panels, taps, K, PANEL]`` of ``[N, taps, K]``, filled up with zeros."""
    packed = pack_deep(weight, groups, 1)
    return packed.reshape(*packed.shape[:2], *weight.shape[1:], PANEL)


def pack_deep(weight: torch.Tensor, groups: int, deep: int) -> torch.Tensor:
    """Return ``[groups, panels, ⌈taps · K / deep⌉, PANEL, deep]`` of ``[N, taps, K]``, filled up with zeros."""
    from torch.nn import functional

    n, taps, k = weight.shape
    each, depth = n // groups, taps * k
    whole = functional.pad(weight.reshape(groups, each, depth), (0, -depth % deep, 0, -each % PANEL))
    panels, steps = whole.shape[1] // PANEL, whole.shape[2] // deep
    return whole.reshape(groups, panels, PANEL, steps, deep).permute(0, 1, 3, 2, 4).contiguous()


def unpack_deep(data: torch.Tensor, shape: tuple[int, ...], groups: int, deep: int) -> torch.Tensor:
    """Return ``[N, taps, K]``: the inverse of :func:`pack_deep`, and with 1 for ``deep`` of :func:`pack_panels`."""
    n, taps, k = shape
    each, depth = n // groups, taps * k
    panels, steps = -(-each // PANEL), -(-depth // deep)
    whole = data.reshape(groups, panels, steps, PANEL, deep).permute(0, 1, 3, 2, 4)
    return whole.reshape(groups, panels * PANEL, steps * deep)[:, :each, :depth].reshape(n, taps, k)


def winograd_filters(data: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Return ``[N, K, 3, 3]`` of transformed weights in panels: the inverse of :func:`winograd_weights`."""
    import torch

    n, places, k = shape
    rows = [unpack_deep(part, (n, 1, k), 1, 1) for part in data.reshape(places, -1)]
    matrix = _winograd_matrix(places)
    inverse, edge = torch.linalg.pinv(matrix), len(matrix)
    spread = torch.cat(rows, 1).reshape(n, edge, edge, k).permute(0, 3, 1, 2)
    return torch.einsum("ia,nkab,jb->nkij", inverse, spread.double(), inverse).float()


def winograd_weights(weight: torch.Tensor, places: int) -> torch.Tensor:
    """Return ``G g Gᵀ`` as ``[N, places, K]`` of ``[N, K, 3, 3]``.

    F(4 × 4, 3 × 3) and F(2 × 2, 3 × 3) of Lavin and Gray, *Fast Algorithms for Convolutional Neural Networks*, 2015;
    with stride 2 every second pixel meets the outer two weights, by F(2, 2), and the others the middle one. Worked out
    in float64.
    """
    import torch

    g = _winograd_matrix(places)
    found = torch.einsum("ai,nkij,bj->nabk", g, weight.double(), g)
    return found.flatten(1, 2).float()


def _winograd_matrix(places: int) -> torch.Tensor:
    """Return G."""
    import torch

    rows = {
        16: [[1, 0, 0], [1 / 2, 1 / 2, 1 / 2], [1 / 2, -1 / 2, 1 / 2], [0, 0, 1]],
        25: [[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 0], [0, 0, 1]],
        36: [
            [1 / 4, 0, 0], [-1 / 6, -1 / 6, -1 / 6], [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6], [1 / 24, -1 / 12, 1 / 6], [0, 0, 1],
        ],
    }  # fmt: skip
    return torch.tensor(rows[places], dtype=torch.float64)
