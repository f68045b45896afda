"""The vector unit's cycles: what takes several elements in a lane of 32 bits, what does not, and int8 made of sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch

import atalla
from atalla import ir
from atalla.device import Hardware, InstructionCounters
from atalla.isa import Dtype, Op
from atalla.run.device import simulate
from tests.atalla import int8_programs, one_instruction
from tests.atalla.one_instruction import Given

FACTORS = (1, 2, 4)


def counted(blob: bytes, **fields: int) -> InstructionCounters:
    """Return what the only instruction took, on one lane: then no group of elements has empty places."""
    (found,) = simulate(blob, Hardware(lanes=1, **fields)).instructions
    return found


def programs(make: Callable[[int], Given], operation: str) -> Iterator[bytes]:
    """Return some programs of an operation."""
    found = [blob for seed in range(40) if counted(blob := make(seed)[0]).operation == operation]
    assert len(found) > 3
    return iter(found[:6])


def copy(dtype: Dtype) -> bytes:
    """Return a program that copies 3003 elements."""
    src, dst = one_instruction.given("x", dtype, (3, 1001)), one_instruction.result(dtype, (3, 1001))
    numbers = torch.zeros(3, 1001)
    return one_instruction.program(ir.Instruction(Op.COPY, dst, (src,)), [src], [numbers])[0]


@pytest.mark.parametrize("factor", FACTORS)
def test_taps_of_int8_go_into_one_sum_together(factor: int) -> None:
    for blob in programs(int8_programs.convolution, "QDWCONV2D"):
        one = counted(blob, vector_int8_factor=factor, vector_requantise_cycles=7, vector_simple_cycles=3)
        made = math.prod(one.shape)
        taps = one.macs // made
        assert one.busy.vector == made * (3 * -(-taps // factor) + 7)


def test_taps_of_float32_go_one_by_one() -> None:
    net = torch.nn.Conv2d(8, 8, 3, groups=8)
    blob = atalla.compile(torch.export.export(net, (torch.zeros(1, 8, 9, 9),))).data
    for factor in FACTORS:
        simulation = simulate(blob, Hardware(lanes=1, vector_int8_factor=factor))
        (one,) = (one for one in simulation.instructions if one.operation == "DWCONV2D")
        assert one.busy.vector == 8 * 7 * 7 * (9 + 1)  # each result is moved, too


@pytest.mark.parametrize("cycles", [1, 2, 6])
def test_sums_are_made_int8_one_in_a_lane(cycles: int) -> None:
    """They have 32 bits, however many int8 a lane has room for."""
    for factor in FACTORS:
        for blob in programs(int8_programs.product, "QGEMM"):
            one = counted(blob, vector_int8_factor=factor, vector_requantise_cycles=cycles)
            assert one.busy.vector == math.prod(one.shape) * cycles


@pytest.mark.parametrize("factor", FACTORS)
def test_the_largest_of_int8_is_found_for_several(factor: int) -> None:
    for blob in programs(int8_programs.pool, "POOL2D"):
        one = counted(blob, vector_int8_factor=factor)
        wanted = 10 * math.prod(one.shape) / factor  # nine taps, and one to begin with
        assert wanted <= one.busy.vector < wanted + 10 * one.tiles


@pytest.mark.parametrize(
    ("dtype", "together"),
    [(Dtype.I8, (1, 2, 4)), (Dtype.BOOL, (1, 2, 4)), (Dtype.BF16, (1, 2, 2)), (Dtype.F32, (1, 1, 1))],
)
def test_what_is_moved_takes_the_room_that_it_has(dtype: Dtype, together: tuple[int, ...]) -> None:
    for factor, here in zip(FACTORS, together, strict=True):
        one = counted(copy(dtype), vector_int8_factor=factor)
        assert 3003 / here <= one.busy.vector < 3003 / here + one.tiles


def test_what_is_worked_out_in_float32_takes_a_lane_each() -> None:
    """Sums of two int8 tensors, and tables: a lane reads one entry at a time."""
    for make, operation in ((int8_programs.chain, "EW"), (int8_programs.table, "GATHER")):
        for blob in programs(make, operation):
            assert len({counted(blob, vector_int8_factor=factor).busy for factor in FACTORS}) == 1
