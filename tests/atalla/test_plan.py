"""Plan: every plan is sound, as a checker says that knows nothing of it; small ones are as small as can be."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atalla.plan import ALIGN, Buffer, aligned, check, max_live, plan

BUFFERS = st.lists(
    st.tuples(st.integers(0, 1000), st.integers(0, 12), st.integers(0, 6)).map(
        lambda n: Buffer(n[0], n[1], n[1] + n[2])
    ),
    max_size=14,
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
    assert all(offset % ALIGN == 0 for offset in found.offsets)
    assert all(offset + one.size <= found.peak for one, offset in zip(buffers, found.offsets, strict=True))
    assert found.peak >= found.bound == max_live(Buffer(aligned(b.size), b.first, b.last) for b in buffers)


@given(BUFFERS, st.randoms(use_true_random=False))
def test_the_checker_finds_what_every_pair_finds(buffers: list[Buffer], random: object) -> None:
    offsets = tuple(random.randrange(0, 40) * ALIGN for _ in buffers)
    told = check(buffers, offsets, peak=1 << 20)
    assert (told is not None) == overlap(buffers, offsets)


@pytest.mark.parametrize(
    ("offsets", "peak", "told"),
    [((0, 64), 128, None), ((0, 0), 128, "overlap"), ((0, 32), 128, "not aligned"), ((0, 64), 100, "not in the arena")],
)
def test_what_is_wrong_is_said(offsets: tuple[int, ...], peak: int, told: str | None) -> None:
    found = check([Buffer(64, 0, 1), Buffer(64, 1, 2)], offsets, peak)
    assert found is None if told is None else told in (found or "")


def test_a_chain_needs_two_neighbours_at_once() -> None:
    """Each layer reads what the one before wrote."""
    sizes = [640, 6400, 640, 3200, 64, 6400, 64]
    found = plan([Buffer(size, step, step + 1) for step, size in enumerate(sizes)])
    assert found.is_optimal and found.peak == 6400 + 640
