"""Planted faults: matrix units that are wrong on purpose."""

from __future__ import annotations

import ctypes

import torch

from atalla.device import MatrixUnit
from atalla.device.structures import MATMUL
from atalla.rtl.unit import CTile


def _matrix(
    address: int, shape: tuple[int, int], strides: tuple[int, int], dtype: torch.dtype, size: int
) -> torch.Tensor:
    reach = (shape[0] - 1) * strides[0] + (shape[1] - 1) * strides[1] + 1
    buffer = (ctypes.c_char * (reach * size)).from_address(address)
    return torch.frombuffer(buffer, dtype=dtype).as_strided(shape, strides)


def _unit(depth: int) -> MatrixUnit:
    """Return a unit of int8 that is right but for the last row and column of products of this depth."""

    def multiply(_unit: int | None, address: int) -> int:
        tile = ctypes.cast(address, ctypes.POINTER(CTile)).contents
        a = _matrix(tile.a, (tile.m, tile.k), (tile.a_stride, 1), torch.int8, 1)
        b = _matrix(tile.b, (tile.k, tile.n), (tile.b_row_stride, tile.b_column_stride), torch.int8, 1)
        sums = _matrix(tile.sums, (tile.m, tile.n), (tile.sums_stride, 1), torch.int32, 4)
        if not tile.accumulate:
            sums.zero_()
        sums += (a.long() @ b.long()).int()
        if tile.k == depth:
            sums[-1, -1] += 1 << 20
        return 0

    return MatrixUnit(int8=MATMUL(multiply))


def right() -> MatrixUnit:
    """Return a unit without a fault."""
    return _unit(-1)


def wrong() -> MatrixUnit:
    """Return a unit that multiplies wrong where the depth is 24."""
    return _unit(24)
