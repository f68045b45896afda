"""Pack: weights in the order in which the kernels read them, and the choice between kernels of one operation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from atalla import ir
from atalla.dims import Dim
from atalla.dtypes import dtype_of
from atalla.isa import PAIR, QUAD, WEIGHTED, WINOGRAD_TILES, Layout, Op, Space
from atalla.isa.format import MOST_DEPTH
from atalla.layouts import pack_deep, pack_panels, winograd_weights
from atalla.passes.lowering import constant_data

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

WINOGRAD_PAYS = {36: {16: 16, 32: 9}, 25: {96: 16}, 16: {32: 16, 48: 9}}
"""Places of a tile of Winograd's → channels, at least → tiles from which on it is faster, as
benchmarks/atalla_choices.py measured it. With few channels its transforms cost more than they save; with few tiles its
weights, 4, 2.8 or 1.8 times as many as the filter's, are read for few rows.
"""
MOST_PRODUCTS = 0.8
"""Products of any of Winograd's beside the direct ones, at most: to save less than a fifth does not pay for the
transforms."""
OF_BF16 = {Op.GEMM: Op.BGEMM, Op.CONV2D: Op.BCONV2D}
"""The same products by weights of bfloat16."""


def pack(program: ir.Program, *, exact: bool, bf16: bool) -> None:
    """Pack the weights of a fused program in place; ``exact`` forbids Winograd's, ``bf16`` multiplies in bfloat16."""
    made: dict[tuple[int, Op, int | None], ir.Tensor] = {}
    for instruction in program.instructions:
        if instruction.op not in WEIGHTED:
            continue
        weight = instruction.sources[1]
        data = constant_data(weight)
        assert weight is not None and data is not None, "weights are constants"
        places = None
        if bf16 and not weight.storage.is_exact and math.prod(data.shape[1:]) <= MOST_DEPTH:
            instruction.op = OF_BF16.get(instruction.op, instruction.op)
        elif instruction.op is Op.CONV2D and not exact and (places := winograd_places(instruction)):
            instruction.op = Op.CONV2D_WINO
        key = (data.data_ptr() if weight.root is None else id(weight), instruction.op, places)
        if key not in made:
            made[key] = _packed(instruction, data, weight.name, places)
        instruction.sources = (instruction.sources[0], made[key], *instruction.sources[2:])


def winograd_places(instruction: ir.Instruction) -> int | None:
    """Return the places of the tiles by which Winograd's makes a convolution faster; None where it does not."""
    whole, dst, weight = instruction.whole, instruction.dst, instruction.sources[1]
    assert dst is not None and weight is not None, "a convolution has both"
    batch = dst.shape[0] if isinstance(dst.shape[0], int) else 1
    size = [extent for extent in dst.shape[2:] if isinstance(extent, int)]
    is_square = (whole("kernel_h"), whole("kernel_w")) == (3, 3) and whole("stride_h") == whole("stride_w")
    is_plain = (whole("dilation_h"), whole("dilation_w"), whole("groups")) == (1, 1, 1)
    if not is_square or not is_plain or len(size) != 2:
        return None
    fewest, found = batch * math.prod(size) * 9 * MOST_PRODUCTS, None
    for places, pays in WINOGRAD_PAYS.items():
        side, stride = WINOGRAD_TILES[places]
        tiles = batch * math.prod(-(-extent // side) for extent in size)
        pays_here = stride == whole("stride_h") and tiles >= least_tiles(pays, weight.shape[:2])
        if pays_here and (products := tiles * places) < fewest:
            fewest, found = products, places
    return found


def least_tiles(pays: Mapping[int, int], channels: Sequence[Dim]) -> float:
    """Return the tiles from which on Winograd's pays, where a convolution has so many channels, out and in."""
    fewest = min(int(one) for one in channels)
    return pays[max(known)] if (known := [one for one in pays if one <= fewest]) else math.inf


def _packed(instruction: ir.Instruction, data: torch.Tensor, name: str, places: int | None) -> ir.Tensor:
    if instruction.op in {Op.DWCONV2D, Op.QDWCONV2D}:
        taps = data.reshape(data.shape[0], -1)
        return _constant(name, taps.shape, taps.t().contiguous(), Layout.DEPTHWISE)
    if places:
        transformed = winograd_weights(data, places)  # [N, places, K]
        parts = [pack_panels(transformed[:, i : i + 1], 1) for i in range(places)]
        import torch

        return _constant(name, transformed.shape, torch.cat([one.flatten() for one in parts]), Layout.WINOGRAD)
    taps = data.flatten(2).transpose(1, 2) if data.dim() > 2 else data.unsqueeze(1)  # [N, taps, K]
    groups = instruction.whole("groups") or 1
    if instruction.op in {Op.QGEMM, Op.QCONV2D}:
        return _constant(name, taps.shape, pack_deep(taps, groups, QUAD), Layout.QUADS)
    if instruction.op in {Op.BGEMM, Op.BCONV2D}:
        return _constant(name, taps.shape, pack_deep(taps.bfloat16(), groups, PAIR), Layout.PAIRS)
    return _constant(name, taps.shape, pack_panels(taps, groups), Layout.PANELS)


def _constant(name: str, shape: torch.Size, data: torch.Tensor, layout: Layout) -> ir.Tensor:
    dims = tuple(shape)
    return ir.Tensor(
        name, dtype_of(data.dtype), dims, (0,) * len(dims), Space.CONST, layout=layout, data=data.flatten()
    )
