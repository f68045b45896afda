"""Statistics: exact intervals against tables and simulation, paired ratios, ties, the noise floor."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.measure.statistics import (
    MIN_ROUNDS,
    RESOLUTION,
    can_tell_apart,
    latency_ms,
    median_interval,
    noise_floor,
    paired_ratio,
)
from cross_backend.records import Measurement

Draw = Callable[..., list[Measurement]]


def measurement(*rounds: tuple[int, ...]) -> Measurement:
    return Measurement("latency", "ns", rounds)


# n → places of the ends, from below: the two-sided 95 % limits of any sign-test table (for example Conover, 3rd ed.).
TABLE = {
    1: (1, 1), 2: (1, 2), 5: (1, 5), 6: (1, 6), 8: (1, 8), 9: (2, 8), 10: (2, 9), 12: (3, 10), 15: (4, 12),
    20: (6, 15), 25: (8, 18), 30: (10, 21), 50: (18, 33), 100: (40, 61), 1000: (469, 532),
}  # fmt: skip


@pytest.mark.parametrize(("n", "places"), TABLE.items())
def test_the_interval_is_the_tables(n: int, places: tuple[int, int]) -> None:
    values = np.random.default_rng(n).permutation(np.arange(1, n + 1)).tolist()
    assert median_interval(values) == places


@given(st.integers(MIN_ROUNDS, 400), st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]))
def test_the_interval_keeps_its_confidence_and_is_the_shortest_that_does(n: int, confidence: float) -> None:
    low, high = (int(place) for place in median_interval(range(1, n + 1), confidence))
    assert low + high == n + 1, "symmetric"

    def coverage(k: int) -> float:
        return 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n

    if low > 1:
        assert coverage(low) >= confidence
    if low < (n - 1) // 2:
        assert coverage(low + 1) < confidence


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=60))
def test_the_interval_holds_the_sample_median(values: list[int]) -> None:
    low, high = median_interval(values)
    assert low <= statistics.median(values) <= high
    assert {low, high} <= set(values)
    assert median_interval([-v for v in values]) == (-high, -low)


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    """Exact coverage at n = 30 is 95.7 %; 4,000 trials have a standard deviation of 0.3 %."""
    rng = np.random.default_rng(7)
    trials, n = 4000, 30
    draws = rng.exponential(1.0, (trials, n))
    hits = sum(low <= math.log(2) <= high for low, high in map(median_interval, draws.tolist()))
    assert 0.945 <= hits / trials <= 0.970


def test_latency_counts_a_round_as_one_observation() -> None:
    rounds = [(1_000_000 * r, 1_000_000 * r, 9_000_000) for r in range(1, 10)]
    found = latency_ms(measurement(*rounds, ()))
    assert found.value == pytest.approx(statistics.median(v for row in rounds for v in row) / 1e6)
    assert (found.low, found.high) == (2.0, max(8.0, found.value))


@given(st.lists(st.lists(st.integers(1, 10**9), min_size=1, max_size=4), min_size=1, max_size=12))
def test_latency_lies_inside_its_interval(rounds: list[list[int]]) -> None:
    found = latency_ms(measurement(*map(tuple, rounds)))
    assert 0 < found.low <= found.value <= found.high


def test_a_ratio_is_paired_by_round() -> None:
    weather = [1, 5, 2, 8, 3, 9, 4]
    slow = measurement(*[(300 * w, 300 * w) for w in weather])
    fast = measurement(*[(100 * w,) for w in weather])
    found = paired_ratio(slow, fast)
    assert found is not None
    assert (found.value, found.low, found.high) == (3.0, 3.0, 3.0)


def test_only_common_rounds_count() -> None:
    first = measurement(*[(100,) if i % 2 else () for i in range(20)])
    assert paired_ratio(first, measurement(*[() if i % 2 else (100,) for i in range(20)])) is None
    assert paired_ratio(first, measurement(*[(100,)] * 20)) is not None
    assert paired_ratio(measurement(*[(1,)] * (MIN_ROUNDS - 1)), measurement(*[(1,)] * (MIN_ROUNDS - 1))) is None
    assert paired_ratio(measurement(*[(1,)] * MIN_ROUNDS), measurement(*[(1,)] * MIN_ROUNDS)) is not None


def test_unlike_runs_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="zip"):
        paired_ratio(measurement((1,)), measurement((1,), (2,)))


def test_calls_faster_than_the_clock_do_not_break_the_ranking() -> None:
    """Windows' clock ticks every 100 ns: a call may seem to take none."""
    nothing, something = measurement(*[(0,)] * 10), measurement(*[(100,)] * 10)
    assert can_tell_apart(something, nothing, 0.02) == can_tell_apart(nothing, something, 0.02)
    assert not can_tell_apart(nothing, nothing, 0.02)
    assert noise_floor(nothing, nothing) in (None, RESOLUTION)


def test_a_target_cannot_be_told_from_its_twin(draw: Draw) -> None:
    """The floor bounds what was seen, so a twin never lies beyond it; over many machines it is rarely exceeded."""
    wrong = 0
    for seed in range(200):
        first, twin, third = draw(1.0, 1.0, 1.0, seed=seed, noise=0.05)
        floor = noise_floor(first, twin)
        assert floor is not None and floor >= RESOLUTION
        assert not can_tell_apart(first, twin, floor)
        wrong += can_tell_apart(first, third, floor)
    assert wrong <= 4


def test_a_real_difference_is_seen_through_the_drift(draw: Draw) -> None:
    """Rounds drift by 30 %, far more than the 8 % between the targets."""
    seen = sum(can_tell_apart(*draw(1.0, 1.08, seed=seed, drift=0.3), RESOLUTION) for seed in range(100))
    assert seen >= 99


@pytest.mark.parametrize(
    ("ratio", "apart"), [(1.0, False), (1.045, False), (1.07, True), (1 / 1.07, True), (3.0, True)]
)
def test_the_whole_interval_must_lie_beyond_the_floor(ratio: float, apart: bool, draw: Draw) -> None:
    first, second = draw(1.0, ratio, noise=0.001)
    assert can_tell_apart(first, second, RESOLUTION) is apart
    assert can_tell_apart(second, first, RESOLUTION) is apart
    assert not can_tell_apart(first, second, abs(math.log(ratio)) + 0.02)


def test_the_floor_grows_with_the_noise(draw: Draw) -> None:
    quiet = noise_floor(*draw(1.0, 1.0, noise=0.001))
    loud = noise_floor(*draw(1.0, 1.0, noise=0.5))
    assert quiet == RESOLUTION
    assert loud is not None and loud > 2 * RESOLUTION
    assert noise_floor(*draw(1.0, 1.0, rounds=5)) is None


def test_the_floor_is_symmetric(draw: Draw) -> None:
    first, twin = draw(1.0, 1.1, noise=0.01)
    assert noise_floor(first, twin) == pytest.approx(noise_floor(twin, first))
    assert noise_floor(first, twin) == pytest.approx(math.log(1.1), rel=0.2)
