"""Quantiles: Student's t against a printed table, binomial places against exact sums, the error of a median."""

from __future__ import annotations

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.measure.quantiles import median_error, median_interval, ranks_around, student_t

# Abramowitz & Stegun, table 26.10: two-sided 5 % and 1 %, and one-sided 5 %.
T_TABLE = {
    (0.975, 1): 12.706, (0.975, 2): 4.303, (0.975, 3): 3.182, (0.975, 4): 2.776, (0.975, 5): 2.571, (0.975, 9): 2.262,
    (0.975, 30): 2.042, (0.975, 120): 1.980, (0.995, 1): 63.657, (0.995, 6): 3.707, (0.995, 29): 2.756,
    (0.95, 1): 6.314, (0.95, 2): 2.920, (0.95, 10): 1.812, (0.95, 60): 1.671,
}  # fmt: skip


@pytest.mark.parametrize(("key", "quantile"), T_TABLE.items())
def test_student_t_is_the_tables(key: tuple[float, int], quantile: float) -> None:
    assert student_t(*key) == pytest.approx(quantile, abs=6e-4)


def test_student_t_has_its_limits() -> None:
    assert student_t(0.5, 7) == pytest.approx(0.0, abs=1e-12)
    assert student_t(0.975, 100_000) == pytest.approx(1.959964, abs=1e-4)
    assert student_t(0.975, 1001) == pytest.approx(student_t(0.975, 1000), abs=1e-5), "the two ways meet"
    assert student_t(0.975, 1) == pytest.approx(math.tan(math.pi * 0.475)), "Cauchy's distribution"


@given(st.integers(1, 60), st.sampled_from([Fraction(1, 2), Fraction(9, 10), Fraction(99, 100), Fraction(1, 7)]))
def test_places_have_the_largest_tails_that_are_allowed(n: int, share: Fraction) -> None:
    tail = Fraction(1, 40)
    below = [math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(n + 1)]
    low, high = ranks_around(n, float(share), 0.95)
    assert sum(below[:low]) <= tail < sum(below[: low + 1])
    assert sum(below[high:]) <= tail < sum(below[high - 1 :])


def test_many_values_take_no_time_and_agree_with_the_normal_limit() -> None:
    n, share = 10_000_000, 0.999
    low, high = ranks_around(n, share, 0.95)
    reach = 1.959964 * math.sqrt(n * share * (1 - share))
    assert low == pytest.approx(n * share - reach, abs=2)
    assert high == pytest.approx(n * share + reach, abs=3)


@pytest.mark.parametrize("n", [1001, 1002, 2500])
def test_long_series_have_the_same_interval_as_whole_numbers_give(n: int) -> None:
    low, high = median_interval(range(n))
    assert low + high == n - 1
    tail = sum(math.comb(n, k) for k in range(int(low) + 1))
    assert Fraction(tail, 2**n) <= Fraction(1, 40) < Fraction(tail + math.comb(n, int(low) + 1), 2**n)


def test_the_error_of_a_median_is_what_repetition_shows() -> None:
    """It is a little too large where values are few, and never too small."""
    rng = np.random.default_rng(5)
    for n in (3, 10, 30, 200):
        draws = rng.normal(0, 1, (1500, n)).tolist()
        shown = statistics.fmean(map(median_error, draws))
        real = statistics.stdev(map(statistics.median, draws))
        assert 0.95 * real <= shown <= (1.3 if n < 20 else 1.15) * real
    assert median_error([4.0]) == 0
