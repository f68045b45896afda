"""Precision: what is advertised is found, sampling stops when it is reached, the estimate leads there."""

from __future__ import annotations

import math
import statistics
from types import ModuleType

import numpy as np
import pytest

from cross_backend.measure.paired import RESOLUTION, resolution
from cross_backend.measure.precision import precision_reached
from cross_backend.measure.statistics import noise_floor
from cross_backend.measurement import Measurement
from tests.unit.measure.pairs import can_tell_apart, detectable


def launched(*logs: float, rounds: int = 10) -> Measurement:
    """Give launches that are constant in themselves, from the logarithms of their milliseconds."""
    values = tuple((1e6 * math.exp(log),) for log in logs for _ in range(rounds))
    return Measurement("latency", "ns", values, (rounds,) * len(logs))


@pytest.mark.parametrize(("slower", "launches", "process"), [(0.10, 3, 0.01), (0.05, 8, 0.01), (0.03, 14, 0.008)])
def test_what_is_advertised_is_found(slower: float, launches: int, process: float, simulated: ModuleType) -> None:
    """Of the studies that advertise the difference or a smaller one, 95 % and more find it."""
    rng = np.random.default_rng(1)
    machine = simulated.Machine(process=process, noise=0.02, sample=0.01, outliers=0.03)
    found, advertised, studies = 0, 0, 80
    for _ in range(studies):
        first, twin, second = simulated.simulate(rng, [1, 1, 1 + slower], launches, machine, rounds=20, samples=1)
        floor = noise_floor(first, twin)
        assert floor is not None
        x = detectable(first, [second, twin], floor)
        assert x is not None
        if x <= slower:
            advertised += 1
            found += can_tell_apart(second, first, floor)
    assert advertised >= studies / 2, "such studies do advertise it"
    assert found >= 0.95 * advertised


def test_half_of_the_advertised_difference_is_not_promised(simulated: ModuleType) -> None:
    """The figure is not needlessly large: what is clearly smaller is often missed."""
    rng, missed, studies = np.random.default_rng(2), 0, 60
    for _ in range(studies):
        first, twin = simulated.simulate(rng, [1, 1], 4, rounds=10, samples=1)
        floor = noise_floor(first, twin)
        x = detectable(first, [twin], floor)
        assert floor is not None and x is not None and math.expm1(floor) < x
        state = np.random.default_rng(rng.integers(1 << 30))
        again, other = simulated.simulate(state, [1, 1 + x / 2], 4, rounds=10, samples=1)
        missed += not can_tell_apart(other, again, floor)
    assert missed > studies / 4


def test_one_launch_advertises_little() -> None:
    """Half-width + power term, both 2.776 × 2.8 %."""
    x = detectable(launched(0.0), [launched(0.0)], None)
    assert x == pytest.approx(math.expm1(2 * 2.7764 * RESOLUTION / 1.959964), rel=1e-3)
    assert detectable(launched(0.0, rounds=3), [launched(0.0, rounds=3)], None) is None
    assert detectable(launched(0.0), [], None) is None


def test_the_noisiest_pair_and_the_number_of_targets_count() -> None:
    quiet, noisy, leader = launched(*[0.01] * 5), launched(0.0, 0.1, -0.1, 0.05, 0.0), launched(*[0.0] * 5)
    one, other = detectable(leader, [quiet], None), detectable(leader, [noisy], None)
    assert one is not None and other is not None and one < other
    assert detectable(leader, [quiet, noisy], None) == other
    many = detectable(leader, [quiet], None, targets=10)
    assert many is not None and many > one
    floor = detectable(leader, [quiet], 0.2)
    assert floor is not None and floor > math.expm1(0.2)


def test_sampling_stops_when_the_margin_is_reached() -> None:
    leader = launched(*[0.0] * 5)
    for margin, reached in ((0.03, True), (0.01, False)):
        assert precision_reached(leader, [launched(*[0.01] * 5)], margin) is reached
    assert not precision_reached(launched(0.0), [launched(0.0)], 0.05), "one launch cannot know it"
    assert precision_reached(launched(0.0), [launched(0.0)], 0.09)
    assert precision_reached(leader, [], 0.01)
    assert not precision_reached(launched(0.0, rounds=2), [launched(0.0, rounds=2)], 0.5), "not comparable yet"


def test_who_is_clearly_apart_needs_no_more() -> None:
    leader, far = launched(*[0.0] * 5), launched(1.0, 1.1, 0.9, 1.05, 1.0)
    assert precision_reached(leader, [far], 0.001)
    assert not precision_reached(leader, [far, launched(*[0.01] * 5)], 0.001)
    assert not precision_reached(leader, [far], 0.001, floor=2.0)
    near = launched(*[0.03] * 5)
    assert can_tell_apart(leader, near, resolution(5))
    assert not precision_reached(leader, [near], 0.001), "apart now, but not so clearly that one may stop at it"


def test_stopping_at_a_pleasing_moment_brings_no_false_verdicts(simulated: ModuleType) -> None:
    rng, studies, wrong, stopped = np.random.default_rng(6), 60, 0, []
    machine = simulated.Machine(process=0.015, noise=0.03, outliers=0.03)
    for _ in range(studies):
        panel = simulated.simulate(rng, [1, 1, 1], 12, machine, rounds=10, samples=1)
        for launches in range(2, 13):
            first, twin, second = (simulated.first_launches(one, launches) for one in panel)
            floor = noise_floor(first, twin)
            assert floor is not None
            if launches == 12 or precision_reached(first, [second, twin], 0.025, floor):
                wrong += can_tell_apart(first, second, floor)
                stopped.append(launches)
                break
    assert wrong <= 0.05 * studies
    assert min(stopped) < 12 and statistics.median(stopped) > 3
