"""Cycles: the closed form, by itself and against a clock that is stepped as the unit's comments say."""

from __future__ import annotations

import random

from atalla.rtl.cycles import chain, matmul, tile


def stepped(rows: int, depth: int, size: int) -> int:
    """Return the edges from the first weight to the last sum, one after the other."""
    tiles, clock, filled, in_use = -(-depth // size), 0, 0, 0
    taken: dict[int, int] = {}  # address → when its row was last taken
    row = 0
    while in_use < tiles:
        is_first = row == 0
        is_taken = (not is_first or filled == size) and clock - taken.get(row, -size - 1) > size
        if filled < size:  # more than are needed do no harm
            filled += 1
        if is_taken:
            taken[row] = clock
            filled = 0 if is_first else filled
            row = (row + 1) % rows
            in_use += row == 0
        clock += 1
    return clock - 1 + 2 * size


def test_one_tile_is_that_of_scale_sim_and_one_edge() -> None:
    for rows, size in ((1, 8), (8, 8), (100, 16), (1024, 32)):
        assert tile(rows, size) == 2 * size + size + rows - 2 + 1


def test_closed_form_is_what_a_stepped_clock_counts() -> None:
    draw = random.Random(0)
    for _ in range(300):
        rows, depth, size = draw.randint(1, 80), draw.randint(1, 200), draw.choice((8, 16, 32))
        assert chain(rows, depth, size) == stepped(rows, depth, size), (rows, depth, size)


def test_products_are_cut_into_parts() -> None:
    assert matmul(10, 40, 33, 32) == 2 * (chain(10, 40, 32) + 10)
    assert matmul(10, 40, 33, 32, accumulate=True) == 2 * (chain(10, 40, 32) + 20)
    assert matmul(1025, 8, 8, 8) == chain(1024, 8, 8) + 1024 + chain(1, 8, 8) + 1
    assert matmul(10, 0, 33, 32) == 0
