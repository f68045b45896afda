"""Sharing: which threshold stays, as runs become faster and slower, the clock's part being played; who is woken."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.atalla.native import built_alone

NEAR = (40, 50, 60, 65)
"""What a run takes that shares much, less, little, nothing, where handing over is cheap; nanoseconds."""
FAR = (90, 80, 72, 65)
TRIAL = 32
"""Runs, eight with each threshold."""


@pytest.fixture(scope="module")
def simulator() -> Path:
    return built_alone("sharing", "sharing.h")


def simulated(simulator: Path, *phases: tuple[int, Sequence[int]]) -> list[tuple[list[int], int]]:
    """Return how many runs of each phase had each threshold, and which stays."""
    given = "".join(f"{runs} {' '.join(map(str, durations))}\n" for runs, durations in phases)
    done = subprocess.run([simulator], input=given, capture_output=True, text=True, check=True)
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    return [(row[:4], row[4]) for row in rows]


@pytest.mark.parametrize("best", range(4))
def test_the_fastest_stays(simulator: Path, best: int) -> None:
    durations = [50 + 10 * (choice != best) for choice in range(4)]
    (trial, _), (rest, stays) = simulated(simulator, (TRIAL, durations), (900, durations))
    assert trial == [8, 8, 8, 8] and stays == best
    others = 3 * 24 if best else 0  # three more trials, where more may be shared
    assert rest[best] == 900 - others


def test_what_is_no_longer_fast_is_tried_again_within_two_windows(simulator: Path) -> None:
    """A machine is moved: its processors are far from each other, and what was shared is slower than one thread."""
    (_, near), (moved, far) = simulated(simulator, (500, NEAR), (200, FAR))
    assert (near, far) == (0, 3)
    assert moved[0] <= 64 + 8 and moved[3] >= 200 - 64 - TRIAL


def test_what_became_faster_is_found_in_a_while(simulator: Path) -> None:
    (_, far), (moved, near) = simulated(simulator, (500, FAR), (1100, NEAR))
    assert (far, near) == (3, 0)
    assert moved[3] <= 1024


def test_what_a_loud_neighbour_spoilt_is_soon_tried_again_and_ever_more_seldom(simulator: Path) -> None:
    (_, far), (moved, near) = simulated(simulator, (TRIAL, FAR), (200, NEAR))
    assert (far, near) == (3, 0)
    assert moved[3] <= 64 - TRIAL + 8
    ((had, stays),) = simulated(simulator, (10_000, FAR))
    assert stays == 3
    assert had[:3] == [8 * 13] * 3  # at 0, 64, 192, 448, 960, and each 1,024 runs from there


def test_a_choice_that_nothing_can_better_is_left_in_peace(simulator: Path) -> None:
    """Runs of a trial are slower: who shares the most, and still is as fast, tries no more."""
    ((had, _),) = simulated(simulator, (10_000, NEAR))
    assert had[1:] == [8, 8, 8]


def test_a_little_slower_is_no_reason(simulator: Path) -> None:
    slower = [duration * 6 // 5 for duration in NEAR]
    _, (had, stays) = simulated(simulator, (500, NEAR), (500, slower))
    assert had == [500, 0, 0, 0] and stays == 0


def test_small_rounds_have_a_thread_that_was_woken_for_all_of_them() -> None:
    """None of them is worth waking it, and little work is not, either."""
    done = subprocess.run([built_alone("waking", "pool.c")], capture_output=True, text=True, check=True)
    alone, little, much = map(int, done.stdout.split())
    assert (alone, little) == (0, 0)
    assert much == 1 or len(os.sched_getaffinity(0)) == 1
