"""Statistics: exact intervals against tables and simulation, paired ratios, ties, the noise floor."""

from __future__ import annotations

import math
import statistics
import time
from array import array
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.measure.paired import (
    MIN_ROUNDS,
    RESOLUTION,
    _launches,
    all_pairs,
    joint_confidence,
    log_ratio,
    resolution,
)
from cross_backend.measure.quantiles import median_interval
from cross_backend.measure.statistics import latency_ms, noise_floor, unpaired_ratio
from cross_backend.measurement import Measurement
from tests.unit.measure.pairs import can_tell_apart, paired_ratio

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
    found, processes = paired_ratio(slow, fast), math.exp(resolution(1))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((3.0, 3.0 / processes, 3.0 * processes))


def test_what_disturbs_some_calls_does_not_count() -> None:
    """Half of the blocks of each are slower by as much as it likes, not the same ones: a quarter is calm."""
    chance = np.random.default_rng(1)

    def disturbed(ns: float) -> Measurement:
        return measurement(*[
            tuple(int(ns * (1 + (i % 2) * chance.exponential(0.7))) for i in order) for order in _halves(chance)
        ])  # fmt: skip

    first, second = disturbed(1e6), disturbed(1.1e6)
    assert second.median / first.median != pytest.approx(1.1, abs=0.02)
    found = paired_ratio(second, first)
    assert found is not None and found.value == pytest.approx(1.1, abs=0.002)


def _halves(chance: np.random.Generator) -> list[list[int]]:
    """Give ten rounds of six calls, half of all odd."""
    numbers = chance.permutation(60)
    return numbers.reshape(10, 6).tolist()


def test_the_number_of_calls_in_a_round_does_not_matter() -> None:
    """A slow target is called once where a fast one is called ten times; the fastest quarter is of the same depth."""
    chance = np.random.default_rng(2)
    many = measurement(*(tuple(row) for row in chance.normal(1e6, 3e4, (300, 10)).astype(int).tolist()))
    few = measurement(*((ns,) for ns in chance.normal(1e6, 3e4, 300).astype(int).tolist()))
    found = paired_ratio(few, many)
    assert found is not None and found.value == pytest.approx(1.0, abs=0.005)


def test_only_common_rounds_count() -> None:
    first = measurement(*[(100,) if i % 2 else () for i in range(20)])
    assert paired_ratio(first, measurement(*[() if i % 2 else (100,) for i in range(20)])) is None
    assert paired_ratio(first, measurement(*[(100,)] * 20)) is not None
    assert paired_ratio(measurement(*[(1,)] * (MIN_ROUNDS - 1)), measurement(*[(1,)] * (MIN_ROUNDS - 1))) is None
    assert paired_ratio(measurement(*[(1,)] * MIN_ROUNDS), measurement(*[(1,)] * MIN_ROUNDS)) is not None


def test_unlike_runs_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="same rounds"):
        paired_ratio(measurement((1,)), measurement((1,), (2,)))


def test_calls_faster_than_the_clock_do_not_break_the_ranking() -> None:
    """Windows' clock ticks every 100 ns: a call may seem to take none."""
    nothing, something = measurement(*[(0,)] * 10), measurement(*[(100,)] * 10)
    assert can_tell_apart(something, nothing, 0.02) == can_tell_apart(nothing, something, 0.02)
    assert not can_tell_apart(nothing, nothing, 0.02)
    assert noise_floor(nothing, nothing) == pytest.approx(resolution(1))


def test_a_target_cannot_be_told_from_its_twin(draw: Draw) -> None:
    """The floor bounds what was seen, so a twin never lies beyond it; over many machines it is rarely exceeded."""
    wrong = 0
    for seed in range(200):
        first, twin, third = draw(1.0, 1.0, 1.0, seed=seed, noise=0.05)
        floor = noise_floor(first, twin)
        assert floor is not None and floor >= resolution(1)
        assert not can_tell_apart(first, twin, floor)
        wrong += can_tell_apart(first, third, floor)
    assert wrong <= 4


def test_a_real_difference_is_seen_through_the_drift(draw: Draw) -> None:
    """Rounds drift by 30 %, far more than the 12 % between the targets."""
    seen = sum(can_tell_apart(*draw(1.0, 1.12, seed=seed, drift=0.3), 0.0) for seed in range(100))
    assert seen >= 99


@pytest.mark.parametrize(("ratio", "apart"), [(1.0, False), (1.07, False), (1.09, True), (1 / 1.09, True), (3.0, True)])
def test_one_launch_tells_apart_what_processes_do_not_differ_by(ratio: float, apart: bool, draw: Draw) -> None:
    first, second = draw(1.0, ratio, noise=0.001)
    assert can_tell_apart(first, second, 0.0) is apart
    assert can_tell_apart(second, first, 0.0) is apart
    assert not can_tell_apart(first, second, abs(math.log(ratio)) + 0.02)


def test_the_floor_grows_with_the_noise(draw: Draw) -> None:
    quiet = noise_floor(*draw(1.0, 1.0, noise=0.001))
    loud = noise_floor(*draw(1.0, 1.0, noise=0.5))
    assert quiet == pytest.approx(resolution(1), rel=0.02)
    assert loud is not None and loud > 1.5 * quiet
    assert noise_floor(*draw(1.0, 1.0, rounds=5)) is None


def test_the_floor_is_symmetric(draw: Draw) -> None:
    first, twin = draw(1.0, 1.1, noise=0.01)
    assert noise_floor(first, twin) == pytest.approx(noise_floor(twin, first))
    assert noise_floor(first, twin) == pytest.approx(math.log(1.1) + resolution(1), rel=0.05)


# --- Several launches

SPREAD = RESOLUTION / 1.959964


def launched(*launches: list[float], unit: str = "ns") -> Measurement:
    """Give one sample a round."""
    rounds = tuple((value,) for launch in launches for value in launch)
    return Measurement("latency", unit, rounds, tuple(map(len, launches)))


def pair(*logs: float, rounds: int = 10) -> tuple[Measurement, Measurement]:
    """Give two measurements whose log ratio is that of its launch in every round."""
    first = launched(*[[1e9 * math.exp(log)] * rounds for log in logs])
    return first, launched(*[[1e9] * rounds for _ in logs])


def test_a_launch_is_one_observation() -> None:
    """The moderated t interval by hand: ν = 4 + 3 − 1 = 6, t = 2.447."""
    logs = (0.01, 0.03, 0.05)
    found = paired_ratio(*pair(*logs))
    assert found is not None
    variance = (4 * SPREAD**2 + 2 * 0.02**2) / 6
    half = 2.4469 * math.sqrt(variance / 3)
    assert math.log(found.value) == pytest.approx(0.03, abs=1e-6)
    assert math.log(found.high) == pytest.approx(0.03 + half, abs=1e-5)
    assert math.log(found.low) == pytest.approx(0.03 - half, abs=1e-5)


def test_more_rounds_in_a_launch_do_not_narrow_what_processes_differ_by() -> None:
    few, many = paired_ratio(*pair(0.0, 0.03, rounds=3)), paired_ratio(*pair(0.0, 0.03, rounds=300))
    assert few is not None and many is not None
    assert many.high / many.low == pytest.approx(few.high / few.low)


def test_launches_that_agree_by_chance_pretend_nothing() -> None:
    for launches in (2, 3, 5, 10):
        found = paired_ratio(*pair(*[0.02] * launches))
        assert found is not None
        assert math.log(found.high / found.value) == pytest.approx(resolution(launches), rel=1e-5)


def test_few_rounds_make_a_wide_interval() -> None:
    """What rounds scatter by within a launch counts before launches can show it."""
    rng = np.random.default_rng(1)
    noisy = launched(*[(1e9 * np.exp(rng.normal(0, 0.3, 4))).tolist() for _ in range(2)])
    found, quiet = paired_ratio(noisy, launched([1e9] * 4, [1e9] * 4)), paired_ratio(*pair(0.0, 0.0, rounds=4))
    assert found is not None and quiet is not None
    assert math.log(found.high / found.low) > 3 * math.log(quiet.high / quiet.low)


def test_one_round_a_launch_gives_the_plain_t_interval() -> None:
    found = paired_ratio(*pair(0.1, 0.2, 0.4, rounds=1))
    assert found is not None
    half = 4.3027 * statistics.stdev([0.1, 0.2, 0.4]) / math.sqrt(3)
    assert math.log(found.high) == pytest.approx(statistics.fmean([0.1, 0.2, 0.4]) + half, abs=1e-4)
    assert paired_ratio(*pair(0.1, 0.2, rounds=1)) is None


def test_launches_without_common_rounds_do_not_count() -> None:
    first = Measurement("latency", "ns", ((100,),) * 10 + ((),) * 10, (10, 10))
    second = Measurement("latency", "ns", ((100,),) * 20, (10, 10))
    found = log_ratio(first, second)
    assert found is not None and found.launches == 1
    assert paired_ratio(launched([1, 2], [1, 2]), launched([1, 2], [1, 2])) is None, "four rounds"
    with pytest.raises(ValueError, match="same rounds"):
        paired_ratio(launched([1] * 10, [1] * 10), launched([1] * 5, [1] * 15))


def test_small_units_are_not_taken_for_a_coarse_clock() -> None:
    joules = launched([0.002] * 10, [0.002] * 10, unit="J")
    found = paired_ratio(joules, launched([0.001] * 10, [0.001] * 10, unit="J"))
    assert found is not None and found.value == pytest.approx(2.0)


def test_the_claimed_floor_falls_with_launches_and_never_below_the_twins() -> None:
    claimed = [resolution(launches) for launches in range(1, 60)]
    assert claimed == sorted(claimed, reverse=True)
    assert all(floor <= RESOLUTION / math.sqrt(launches) for launches, floor in enumerate(claimed[3:], start=4))
    said = [claimed[launches - 1] for launches in (1, 2, 3, 5, 10)]
    assert said == pytest.approx([0.078, 0.046, 0.032, 0.020, 0.011], abs=5e-4), "what docs/measurement.md says"
    for logs in ((0.0, 0.0), (0.04, 0.05, 0.06), (-0.1, -0.1, -0.1, -0.1)):
        floor = noise_floor(*pair(*logs))
        assert floor is not None
        assert floor >= resolution(len(logs)) - 1e-9
        assert floor >= abs(statistics.fmean(logs))


def test_the_interval_must_leave_out_1_and_is_never_narrower_than_the_floor() -> None:
    agreeing, scattered = pair(*[0.04] * 5), pair(0.0, 0.0, 0.0, 0.0, 0.2)
    assert can_tell_apart(*agreeing, 0.03) and can_tell_apart(*agreeing[::-1], 0.03)
    assert not can_tell_apart(*agreeing, 0.05)
    assert not can_tell_apart(*scattered, 0.03), "one launch says it all"
    wide = paired_ratio(*agreeing, floor=0.05)
    assert wide is not None and math.log(wide.low) == pytest.approx(-0.01, abs=1e-6)


def test_many_targets_take_stronger_evidence() -> None:
    first, second = pair(0.02, 0.03, 0.04)
    floor = resolution(3)
    strong = pair(0.05, 0.05, 0.05)
    assert can_tell_apart(*strong, floor, 2)
    assert not can_tell_apart(*strong, floor, 12)
    assert not can_tell_apart(first, second, floor, 2)
    assert joint_confidence(all_pairs(2)) == joint_confidence(all_pairs(1)) == pytest.approx(0.95)
    assert joint_confidence(all_pairs(12)) == pytest.approx(1 - 0.05 / 66)


@pytest.mark.parametrize("process", [0.01, 0.02])
@pytest.mark.parametrize("launches", [2, 5])
def test_intervals_cover_and_verdicts_are_right(process: float, launches: int, simulated: ModuleType) -> None:
    """300 studies of two equal targets have a standard deviation of 1.3 % at 95 %."""
    rng, studies, covered, false = np.random.default_rng(launches), 300, 0, 0
    for _ in range(studies):
        first, twin, second = simulated.simulate(
            rng, [1, 1, 1], launches, simulated.Machine(process=process), rounds=8, samples=1
        )
        ratio, floor = paired_ratio(first, second), noise_floor(first, twin)
        assert ratio is not None and floor is not None
        covered += ratio.low <= 1 <= ratio.high
        false += can_tell_apart(first, second, floor)
    assert covered >= 0.93 * studies
    assert false <= 0.03 * studies


def test_treating_rounds_as_independent_would_be_wrong(simulated: ModuleType) -> None:
    """The test above can fail: the interval that the rounds alone would give leaves out the truth far too often."""
    rng, studies, missed = np.random.default_rng(3), 200, 0
    for _ in range(studies):
        panel = simulated.simulate(rng, [1, 1], 5, simulated.Machine(), rounds=20, samples=1)
        first, second = (Measurement(m.metric, m.unit, m.rounds) for m in panel)
        ((_, value, error),) = _launches(first, second)
        missed += abs(value) > 1.96 * error
    assert missed > 0.12 * studies


def test_latency_over_launches_covers_the_true_median(simulated: ModuleType) -> None:
    """Launches differ by 20 % (weather), rounds of one launch by far less."""
    machine = simulated.Machine(outliers=0.0)
    rng, studies, covered = np.random.default_rng(4), 200, 0
    for _ in range(studies):
        found = latency_ms(simulated.simulate(rng, [1], 4, machine, rounds=8, samples=1)[0])
        covered += found.low <= 1.0 <= found.high
    assert 0.91 * studies <= covered < studies


def test_latency_is_never_sharper_than_processes_allow() -> None:
    found = latency_ms(launched(*[[1_000_000] * 10] * 5))
    assert math.log(found.high / found.low) / 2 == pytest.approx(resolution(5) / math.sqrt(2))
    nothing = latency_ms(launched([0] * 10, [0] * 10))
    assert (nothing.low, nothing.value, nothing.high) == (0, 0, 0)


def test_samples_may_be_packed_and_many() -> None:
    """Ten million samples take no longer than sorting them a few times: no Python loop runs over them."""
    values = array("q", np.random.default_rng(0).integers(900_000, 1_100_000, 250_000).tolist())
    packed = Measurement("latency", "ns", (values, np.asarray(values), tuple(values)) + (values,) * 37, (20, 20))
    assert packed.count == 10_000_000
    started = time.process_time()
    found, ratio = latency_ms(packed), paired_ratio(packed, packed)
    taken = time.process_time()
    np.sort(np.concatenate([np.asarray(row) for row in packed.rounds]))
    assert taken - started < 20 * (time.process_time() - taken), "about as long on an idle machine"
    assert found.value == pytest.approx(statistics.median(values) / 1e6)
    assert ratio is not None and ratio.value == 1


# --- Two studies


def test_studies_are_compared_by_launch() -> None:
    """Welch's interval by hand."""
    a, b = [0.0, 0.02, 0.04, 0.06], [0.1, 0.2, 0.3]
    sides = [launched(*[[1e9 * math.exp(log)] * 10 for log in logs]) for logs in (a, b)]
    found = unpaired_ratio(*sides)
    assert found is not None
    shares = [statistics.variance(a) / 4, statistics.variance(b) / 3]
    freedom = sum(shares) ** 2 / (shares[0] ** 2 / 3 + shares[1] ** 2 / 2)
    assert int(freedom) == 2
    assert math.log(found.value) == pytest.approx(0.03 - 0.2, abs=1e-6)
    assert math.log(found.high / found.value) == pytest.approx(4.3027 * math.sqrt(sum(shares)), abs=1e-4)
    wider = unpaired_ratio(*sides, confidence=0.99)
    assert wider is not None and wider.high > found.high


def test_a_single_launch_says_little_about_another_day() -> None:
    one, other = launched([1e6] * 10), launched([1.2e6] * 10)
    found = unpaired_ratio(other, one)
    assert found is not None and found.value == pytest.approx(1.2)
    assert found.low == pytest.approx(1.2 / 1.29) and found.high == pytest.approx(1.2 * 1.29)
    assert unpaired_ratio(launched([1e6] * 5), one) is None
    mixed = unpaired_ratio(one, launched([1e6] * 10, [1.1e6] * 10, [1.2e6] * 10))
    assert mixed is not None
    error = statistics.stdev(math.log(v) for v in (1, 1.1, 1.2)) * math.sqrt(1 + 1 / 3)
    assert math.log(mixed.high / mixed.value) == pytest.approx(4.3027 * error, abs=1e-4)


def test_studies_that_agree_are_not_equal_beyond_what_processes_allow() -> None:
    same = launched(*[[1e6] * 10] * 4)
    found = unpaired_ratio(same, same)
    assert found is not None and found.value == 1
    assert math.log(found.high) == pytest.approx(RESOLUTION / 2, rel=1e-4)
