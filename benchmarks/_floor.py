"""What a model takes at least: its multiplications as fast as those of a product that stays in the caches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from atalla.isa import WINOGRAD_TILES, Op

if TYPE_CHECKING:
    from atalla.blob.reader import Listing
    from atalla.blob.rows import InstructionRow

SIDE, TIMES = 192, 16
"""Rows, depth and columns of the product, and how often one call makes it."""
BEST = TIMES * SIDE**3
"""Multiplications of such a call."""
KERNEL_H, KERNEL_W, GROUPS, CAUSAL = 8, 9, 10, 0
"""Words of a convolution, and of attention."""


def best_product() -> Callable[[], Any]:
    """Return a call of ``BEST`` multiplications, by Atalla on one thread."""
    import torch

    import atalla

    torch.manual_seed(0)
    x, layer = torch.randn(SIDE, SIDE), torch.nn.Linear(SIDE, SIDE, bias=False)
    program = torch.export.export(torch.nn.Sequential(*TIMES * [layer]), (x,))
    return atalla.load(atalla.compile(program).data, threads=1).bind((x,))


def multiplications(listing: Listing) -> int:
    """Return how many a program of float32 has in products, convolutions and attention.

    Winograd's are counted as they are made, a causal mask halves attention's, and taps beside an image count.
    """
    return sum(_multiplications(listing, one) for one in listing.instructions)


def _multiplications(listing: Listing, one: InstructionRow) -> int:
    if one.op not in {Op.GEMM, Op.BMM, Op.CONV2D, Op.DWCONV2D, Op.CONV2D_WINO, Op.ATTENTION}:
        return 0
    operands = [number for number in (one.dst, *one.sources[:2]) if number is not None]
    made, first, second = ([int(extent) for extent in listing.tensors[number].shape] for number in operands)
    if one.op is Op.ATTENTION:
        return (math.prod(first) + math.prod(made)) * second[-2] // (2 if one.words[CAUSAL] else 1)
    if one.op is Op.CONV2D_WINO:
        step = WINOGRAD_TILES[second[1]]
        return made[0] * math.prod(-(-extent // step) for extent in made[2:]) * math.prod(second)
    depth = first[-1]
    if one.op in {Op.CONV2D, Op.DWCONV2D}:
        depth = one.words[KERNEL_H] * one.words[KERNEL_W] * first[1] // one.words[GROUPS]
    return math.prod(made) * depth
