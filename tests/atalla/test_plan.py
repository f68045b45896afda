"""Plan: every plan is sound, as a checker says that knows nothing of it; small ones are as small as can be."""

from __future__ import annotations

import csv
import ctypes
import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atalla.isa.format import LINE
from atalla.library import CPlanning, library
from atalla.plan import Buffer, aligned, check_plan, max_live, plan
from tests.atalla.make_plans import CAPACITY, PROBLEMS

BUFFERS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 12), st.integers(0, 6)).map(
        lambda n: Buffer(n[0], n[1], n[1] + n[2])
    ),
    max_size=14,
)


SMALL = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 5), st.integers(0, 3)).map(
        lambda n: Buffer(n[0] * LINE, n[1], n[1] + n[2])
    ),
    min_size=1,
    max_size=7,
)


def overlap(buffers: list[Buffer], offsets: tuple[int, ...]) -> bool:
    """Look at every pair."""
    rows = list(zip(buffers, offsets, strict=True))
    return any(
        a.size and b.size and a.meets(b) and x < y + b.size and y < x + a.size
        for (a, x), (b, y) in itertools.combinations(rows, 2)
    )


@given(BUFFERS)
def test_a_plan_is_sound_and_no_smaller_than_its_bound(buffers: list[Buffer]) -> None:
    found = plan(buffers)
    assert not overlap(buffers, found.offsets)
    assert all(offset % LINE == 0 for offset in found.offsets)
    assert all(offset + one.size <= found.peak for one, offset in zip(buffers, found.offsets, strict=True))
    assert found.peak >= found.bound == max_live(Buffer(aligned(b.size), b.first, b.last) for b in buffers)


@given(BUFFERS, st.randoms(use_true_random=False))
def test_the_checker_finds_what_every_pair_finds(buffers: list[Buffer], random: object) -> None:
    offsets = tuple(random.randrange(0, 40) * LINE for _ in buffers)
    told = check_plan(buffers, offsets, peak=1 << 20)
    assert (told is not None) == overlap(buffers, offsets)


@pytest.mark.parametrize(
    ("offsets", "peak", "told"),
    [((0, 64), 128, None), ((0, 0), 128, "overlap"), ((0, 32), 128, "not aligned"), ((0, 64), 100, "not in the arena")],
)
def test_what_is_wrong_is_said(offsets: tuple[int, ...], peak: int, told: str | None) -> None:
    found = check_plan([Buffer(64, 0, 1), Buffer(64, 1, 2)], offsets, peak)
    assert found is None if told is None else told in (found or "")


def test_a_chain_needs_two_neighbours_at_once() -> None:
    """Each layer reads what the one before wrote."""
    sizes = [640, 6400, 640, 3200, 64, 6400, 64]
    found = plan([Buffer(size, step, step + 1) for step, size in enumerate(sizes)])
    assert found.is_optimal and found.peak == 6400 + 640


def least(buffers: list[Buffer]) -> int:
    """Give the peak of the best plan: in each order, each buffer as low as those before let it."""
    best = sum(one.size for one in buffers)
    for order in itertools.permutations(range(len(buffers))):
        tops: list[tuple[Buffer, int]] = []
        for i in order:
            one, at = buffers[i], 0
            for other, top in tops:
                if one.meets(other):
                    at = max(at, top)
            tops.append((one, at + one.size))
        best = min(best, max(top for _, top in tops))
    return best


@settings(deadline=None, max_examples=60)
@given(SMALL)
def test_small_plans_are_the_smallest(buffers: list[Buffer]) -> None:
    found = plan(buffers)
    assert found.peak == least(buffers)
    assert found.is_optimal and found.certificate == "optimal"


@settings(deadline=None)
@given(BUFFERS, st.integers(0, 200))
def test_whatever_the_search_finds_is_sound(buffers: list[Buffer], nodes: int) -> None:
    """In too few nodes, too; the same nodes give the same plan."""
    found = plan(buffers, nodes)
    assert not overlap(buffers, found.offsets)
    assert max_live(Buffer(aligned(b.size), b.first, b.last) for b in buffers) <= found.bound <= found.peak
    assert found == plan(buffers, nodes)


def test_that_the_bound_cannot_be_reached_is_proved() -> None:
    """Eleven lines are alive at once, and yet no plan has fewer than twelve."""
    rows = (
        (2, 1, 2), (5, 4, 4), (5, 0, 1), (5, 0, 0), (1, 4, 6), (3, 2, 3), (2, 3, 5), (2, 1, 2), (3, 3, 5), (1, 2, 3),
        (2, 1, 3),
    )  # fmt: skip
    buffers = [Buffer(size * LINE, first, last) for size, first, last in rows]
    found = plan(buffers)
    assert max_live(buffers) == 11 * LINE and found.bound == found.peak == 12 * LINE
    assert found.certificate == "optimal"
    assert not plan(buffers, nodes=0).is_optimal


def problem(name: str) -> list[Buffer]:
    with Path(__file__).with_name("plans.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["problem"] == name]
    return [Buffer(int(row["size"]), int(row["lower"]), int(row["upper"]) - 1) for row in rows]


@pytest.mark.parametrize("name", PROBLEMS)
def test_hard_problems_are_solved(name: str) -> None:
    """No greedy order solves one of them; the optimum is known from how they were made."""
    buffers = problem(name)
    found = plan(buffers)
    assert found.is_optimal and found.peak == CAPACITY == max_live(buffers)
    assert plan(buffers, nodes=0).peak > CAPACITY


def test_without_the_library_the_gap_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATALLA_LIBRARY", str(tmp_path / "none.so"))
    library.cache_clear()
    found = plan(problem("A"))
    library.cache_clear()
    assert not found.is_optimal and found.searched == 0
    assert found.certificate == f"at most {found.peak / CAPACITY - 1:.2%} above the least"


@pytest.mark.parametrize("field", ["size", "offset"])
def test_the_abi_refuses_null_pointers(field: str) -> None:
    numbers = (ctypes.c_uint64 * 1)(64)
    steps = (ctypes.c_uint32 * 1)(0)
    planning = CPlanning(
        struct_size=ctypes.sizeof(CPlanning), count=1, size=numbers, first=steps, last=steps, align=64, offset=numbers
    )
    assert library().atalla_plan(ctypes.byref(planning), None) == 0
    setattr(planning, field, None)
    assert library().atalla_plan(ctypes.byref(planning), None) == 2
