"""Percentiles: exact places, the samples they need, and samples that are not independent."""

from __future__ import annotations

import math
from types import ModuleType

import numpy as np
import pytest

from cross_backend.measure.percentiles import SHOWN, percentiles, samples_needed
from cross_backend.measure.statistics import median_estimate
from cross_backend.measurement import Measurement


def rounds_of(values: np.ndarray, rounds: int, launches: tuple[int, ...] = ()) -> Measurement:
    return Measurement("latency", "ns", tuple(map(tuple, values.reshape(rounds, -1).tolist())), launches)


@pytest.mark.parametrize(("percent", "needed"), [(50, 7), (90, 44), (99, 459), (99.9, 4603), (1, 459)])
def test_what_a_percentile_needs(percent: float, needed: int) -> None:
    assert samples_needed(percent) == needed
    assert 1 - (max(percent, 100 - percent) / 100) ** needed >= 0.99


def test_too_few_samples_are_told_and_no_number_is_given() -> None:
    rng = np.random.default_rng(0)
    found = percentiles(rounds_of(rng.exponential(1e6, 480), 30))
    assert [one.percent for one in found] == list(SHOWN)
    p999 = found[-1]
    assert (p999.value, p999.low, p999.high, p999.needs) == (None, None, None, 4603)
    assert found[1].value is not None and found[1].needs is None
    assert percentiles(Measurement("latency", "ns", ((), ())), (99.0,))[0].needs == 459
    assert percentiles(rounds_of(np.arange(458.0), 1), (99,))[0].needs == 459
    assert percentiles(rounds_of(np.arange(459.0), 1), (99,))[0].needs is None


def test_the_places_are_the_binomials() -> None:
    """n = 1000, p = 0.9: places 882 and 919 from any table of binomial tails (2.5 % each); the value is the 900th."""
    values = np.random.default_rng(3).permutation(np.arange(1.0, 1001.0))
    (found,) = percentiles(rounds_of(values, 1), (90,))
    assert found.value == 900
    below = [math.comb(1000, k) * 0.9**k * 0.1 ** (1000 - k) for k in range(1001)]
    low, high = int(found.low or 0), int(found.high or 0)
    assert sum(below[:low]) <= 0.025 < sum(below[: low + 1])
    assert sum(below[high:]) <= 0.025 < sum(below[high - 1 :])


def test_the_median_is_the_rankings() -> None:
    measurement = rounds_of(np.random.default_rng(1).exponential(1e6, 300), 30)
    (found,) = percentiles(measurement, (50,))
    median = median_estimate(measurement)
    assert (found.value, found.low, found.high) == (median.value, median.low, median.high)


@pytest.mark.parametrize(("percent", "share"), [(90.0, 0.9), (99.0, 0.99)])
def test_intervals_cover_for_independent_samples(percent: float, share: float) -> None:
    rng, trials, covered = np.random.default_rng(2), 300, 0
    for _ in range(trials):
        (found,) = percentiles(rounds_of(rng.exponential(1.0, 1500), 30), (percent,))
        assert found.low is not None and found.high is not None
        covered += found.low <= -math.log(1 - share) <= found.high
    assert covered >= 0.94 * trials


def clustered(rng: np.random.Generator, rounds: int = 60, samples: int = 40) -> np.ndarray:
    """Give samples whose rounds have a level of their own, as wide as the samples of a round."""
    level = rng.normal(0, 1, (rounds, 1))
    return np.exp(0.1 * (level + rng.normal(0, 1, (rounds, samples))))


def test_slow_calls_that_come_in_groups_widen_the_interval() -> None:
    rng, trials, covered, naive = np.random.default_rng(4), 300, 0, 0
    truth = math.exp(0.1 * math.sqrt(2) * 1.2815516)
    for _ in range(trials):
        values = clustered(rng)
        (found,) = percentiles(rounds_of(values, 60), (90,))
        assert found.low is not None and found.high is not None
        covered += found.low <= truth <= found.high
        (wrong,) = percentiles(rounds_of(values, 1), (90,))
        naive += (wrong.low or 0) <= truth <= (wrong.high or 0)
    assert covered >= 0.91 * trials
    assert naive <= 0.7 * trials, "samples taken for independent"


def test_groups_raise_what_is_needed() -> None:
    """All slow calls in one round of 30: the one round says nothing of how often such rounds are."""
    values = np.ones((30, 20))
    values[7] = 2.0 + np.arange(20)
    (found,) = percentiles(rounds_of(values, 30), (99,))
    assert found.value is None and found.needs is not None and found.needs > 3 * 459


def test_the_spread_of_launches_is_in_the_interval(simulated: ModuleType) -> None:
    (measurement,) = simulated.simulate(np.random.default_rng(1), [1], 5, rounds=20, samples=20)
    joined = Measurement("latency", "ns", measurement.rounds)
    (several,), (one,) = percentiles(measurement, (90,)), percentiles(joined, (90,))
    assert several.value == one.value
    assert several.low is not None and several.high is not None and several.value is not None
    assert one.low is not None and one.high is not None
    assert several.low < one.low < several.value < one.high < several.high


def test_ties_and_constant_series_do_no_harm() -> None:
    found = percentiles(rounds_of(np.ones(6000), 30), SHOWN)
    assert all((one.low, one.value, one.high) == (1, 1, 1) for one in found)
    coarse = percentiles(rounds_of(np.random.default_rng(0).integers(1, 4, 6000).astype(float), 30), SHOWN)
    assert [one.value for one in coarse] == [2, 3, 3, 3]


def test_ten_million_samples() -> None:
    values = np.random.default_rng(0).integers(1, 1_000_000, 10_000_000)
    found = percentiles(Measurement("latency", "ns", tuple(values.reshape(1000, -1)), (500, 500)))
    assert [one.value for one in found] == pytest.approx([5e5, 9e5, 9.9e5, 9.99e5], rel=1e-3)
