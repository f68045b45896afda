"""Steady state: where warm-up ends, that outliers and constants do not fool it, and that it can say never."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from cross_backend.measure.steady import FEWEST_CALLS, steady_from


def ends(simulated: ModuleType, shape: str, calls: int, series: int = 40) -> list[int | None]:
    rng = np.random.default_rng(calls)
    return [steady_from(simulated.warm_up(rng, shape, calls)) for _ in range(series)]


@pytest.mark.parametrize("calls", [50, 150, 300])
@pytest.mark.parametrize("shape", ["none", "constant", "outlier"])
def test_what_is_steady_loses_nothing(shape: str, calls: int, simulated: ModuleType) -> None:
    assert ends(simulated, shape, calls).count(0) >= 38


@pytest.mark.parametrize("calls", [100, 150, 300])
def test_a_sudden_end_is_found(calls: int, simulated: ModuleType) -> None:
    """A compiler that kicks in after 20 calls; batches are of five."""
    found = ends(simulated, "sudden", calls)
    assert sum(end is not None and 18 <= end <= 30 for end in found) >= 38


@pytest.mark.parametrize("calls", [150, 300])
def test_an_exponential_end_is_found(calls: int, simulated: ModuleType) -> None:
    """After 15 calls it is 31 % slow, after 50 it is 0.4 %."""
    found = ends(simulated, "exponential", calls)
    assert sum(end is not None and 15 <= end <= 50 for end in found) >= 38


@pytest.mark.parametrize("calls", [50, 150, 300])
@pytest.mark.parametrize("shape", ["trend", "late jump", "cycle"])
def test_what_never_is_steady_is_told(shape: str, calls: int, simulated: ModuleType) -> None:
    assert ends(simulated, shape, calls).count(None) >= 38


def test_a_slow_rise_without_a_sudden_change_is_told() -> None:
    """No step of it is larger than what counts as the same level; its halves differ by more."""
    assert steady_from([1 + 0.042 * call / 50 for call in range(50)]) is None
    assert steady_from([1 + 0.030 * call / 50 for call in range(50)]) == 0


def test_outliers_anywhere_move_nothing() -> None:
    values = np.full(120, 5.0)
    for index in (0, 40, 60, 119):
        values[index] = 500.0
    assert steady_from(values.tolist()) == 0


def test_the_unit_does_not_matter(simulated: ModuleType) -> None:
    values = simulated.warm_up(np.random.default_rng(9), "sudden", 150)
    found = steady_from(values)
    assert found is not None and found == steady_from([1e6 * value for value in values])
    assert steady_from([int(1e6 * value) for value in values]) == found


def test_a_loud_neighbour_is_not_a_warm_up() -> None:
    """Calls scatter by 20 %; there is nothing to drop."""
    rng = np.random.default_rng(0)
    found = [steady_from(np.exp(rng.normal(0, 0.2, 200)).tolist()) for _ in range(40)]
    assert found.count(0) >= 36


def test_too_short_a_series_is_not_judged() -> None:
    assert steady_from([1.0] * (FEWEST_CALLS - 1)) is None
    assert steady_from([1.0] * FEWEST_CALLS) == 0
    assert steady_from([]) is None
    assert steady_from([0.0] * FEWEST_CALLS) == 0, "a clock too coarse to see the calls"
