"""Ranking: ties share a rank, the order is that of the ratios, and only what is not decided is started again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.measure.paired import joint_confidence, log_ratio, resolution
from cross_backend.measure.precision import smallest_detectable
from cross_backend.measure.ranking import Ranking
from cross_backend.measure.statistics import noise_floor
from cross_backend.measurement import Interval, Measurement

Draw = Callable[..., list[Measurement]]
ROUNDS = 8


def launched(*logs: float | None) -> Measurement:
    """Give launches that are constant in themselves, from the logarithms of their milliseconds; None: not started."""
    rounds = [() if log is None else (1e6 * math.exp(log),) for log in logs for _ in range(ROUNDS)]
    return Measurement("latency", "ns", tuple(rounds), (ROUNDS,) * len(logs))


def ranked(measurements: Sequence[Measurement], floor: float | None = 0.02) -> Ranking:
    return Ranking(dict(enumerate(measurements)), floor)


def ranks(measurements: Sequence[Measurement], floor: float | None = 0.02) -> list[int]:
    found = ranked(measurements, floor).ranks
    return [found[key] for key in sorted(found)]


def test_different_targets_are_told_apart(draw: Draw) -> None:
    assert ranks(draw(3.0, 1.0, 2.0)) == [3, 1, 2]


def test_equal_targets_share_a_rank_and_the_next_keeps_its_place(draw: Draw) -> None:
    assert ranks(draw(1.0, 1.0, 1.0, 2.0)) == [1, 1, 1, 4]
    assert ranks(draw(1.0, 2.0, 2.0, 3.0)) == [1, 2, 2, 4]


def test_a_difference_below_the_floor_is_a_tie(draw: Draw) -> None:
    measurements = draw(1.0, 1.12)
    assert ranks(measurements, 0.02) == [1, 2]
    assert ranks(measurements, 0.15) == [1, 1]


def test_without_a_floor_what_processes_differ_by_counts(draw: Draw) -> None:
    assert ranks(draw(1.0, 1.06), None) == [1, 1]
    assert ranks(draw(1.0, 1.12), None) == [1, 2]


def test_who_shares_too_few_rounds_has_no_rank(draw: Draw) -> None:
    """Without a rank for anybody where nothing was compared: neither a tie nor a winner was found."""
    assert ranks(draw(1.0, 9.0, rounds=6)) == [1, 2]
    short = ranked(draw(9.0, 1.0, rounds=5))
    assert (short.ranks, short.order, short.ratios) == ({}, (1, 0), {1: Interval(1, 1, 1)})
    assert short.found_from(None) is None and short.undecided == [1, 0]
    late = ranked([*draw(1.0, 1.0, 2.0), Measurement("latency", "ns", (*[(9_000_000,)] * 5, *[()] * 25))])
    assert late.ranks == {0: 1, 1: 1, 2: 3} and late.order[-1] == 3


def test_one_or_none_can_be_ranked(draw: Draw) -> None:
    assert ranks([]) == []
    assert ranks(draw(1.0)) == [1]
    for alone in (ranked([]), ranked(draw(1.0))):
        assert alone.undecided == [] and alone.found_from((launched(0.0), launched(0.0))) is None


def test_who_was_disturbed_in_most_of_its_calls_is_no_loser() -> None:
    """Its median and mean are twice those of a target that is a tenth slower; its calm calls tell."""
    disturbed = Measurement("latency", "ns", ((1_000_000, 1_000_000, 2_100_000, 4_000_000, 9_000_000),) * 10)
    steady = Measurement("latency", "ns", ((1_100_000,) * 5,) * 10)
    found = ranked([steady, disturbed])
    assert found.order == (1, 0) and found.ranks == {1: 1, 0: 2}
    assert found.ratios[0].value == pytest.approx(1.1)


def test_the_ratios_are_what_decides(draw: Draw) -> None:
    """Told apart from the leader is whose interval leaves out 1; all intervals together hold with 95 %."""
    found = ranked([launched(*[log] * 4) for log in (0.03, 0.0, 0.05, 0.2)], 0.0)
    assert found.order == (1, 0, 2, 3) and found.ratios[1] == Interval(1.0, 1.0, 1.0)
    for key, rank in found.ranks.items():
        assert (found.ratios[key].low > 1) is (rank > 1)
    others = 3  # pairs beside those with the last, which are clearly apart
    narrow = log_ratio(launched(*[0.2] * 4), launched(*[0.0] * 4), joint_confidence(others))
    assert narrow is not None and math.log(found.ratios[3].low) == pytest.approx(narrow.low)
    floored = ranked([launched(*[log] * 4) for log in (0.0, 0.1)], 0.08).ratios[1]
    assert math.log(floored.low) == pytest.approx(0.02, abs=1e-6)


def test_launches_in_common_are_what_is_compared() -> None:
    """The machine became slower by half after the launch in which the third was left out: it is no faster for that."""
    found = ranked([launched(0.0, 0.4, 0.4), launched(0.01, 0.41, 0.41), launched(0.3, None, None)])
    assert found.order == (0, 1, 2) and found.ranks == {0: 1, 1: 1, 2: 3}
    assert math.log(found.ratios[2].value) == pytest.approx(0.3, abs=1e-6)


@pytest.mark.parametrize(
    ("logs", "again"),
    [
        ((0.0, 0.5, 1.0), []),  # far apart: one launch is enough
        ((0.0, 0.02, 1.0), [0, 1]),
        ((1.0, 0.0, 0.1), [1, 2]),  # told apart, yet not so clearly that one may stop at it
        ((1.0, 0.0, 0.28), [1, 2]),  # clearly apart, yet not by more than what shall be found
        ((0.0, 0.5, 0.5), [1, 2]),  # the last two, whoever leads
        ((0.0, 0.0, 0.0), [0, 1, 2]),
    ],
)
def test_what_is_clearly_apart_is_not_started_again(logs: tuple[float, ...], again: list[int]) -> None:
    assert ranked([launched(log) for log in logs], None).undecided == again


def test_equal_ones_are_decided_when_a_difference_would_be_detected() -> None:
    for launches, decided in ((1, False), (2, False), (4, True)):
        found = ranked([launched(*[0.0] * launches)] * 2, None)
        assert (found.undecided == []) is decided
        share = found.found_from(None)
        assert share is not None and (share <= 0.08) is decided
    assert Ranking(dict(enumerate([launched(*[0.0] * 4)] * 2)), None, 0.02).undecided == [0, 1]


def test_what_would_be_found_is_said_of_near_pairs_and_else_of_the_twins() -> None:
    twins = launched(*[0.0] * 4), launched(0.0, 0.02, 0.01, 0.0)
    floor = noise_floor(*twins)
    ties = ranked([launched(*[0.0] * 4), launched(*[0.01] * 4), launched(0.9, None, None, None)], floor)
    near = log_ratio(launched(*[0.01] * 4), launched(*[0.0] * 4), joint_confidence(1), floor or 0.0)
    assert near is not None and ties.found_from(twins) == pytest.approx(math.expm1(smallest_detectable(near)))
    apart = ranked([launched(0.0), launched(0.9)], floor)
    assert apart.found_from(None) is None
    mine = log_ratio(*twins, floor=floor or 0.0)
    assert mine is not None and apart.found_from(twins) == pytest.approx(math.expm1(smallest_detectable(mine)))
    assert resolution(4) < math.log1p(apart.found_from(twins) or 0.0)


@given(st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=6), st.integers(1, 3))
def test_ranks_follow_the_order(logs: list[float], launches: int) -> None:
    found = ranked([launched(*[log] * launches) for log in logs])
    assert sorted(found.order) == list(range(len(logs)))
    in_order = [found.ranks[key] for key in found.order]
    assert in_order == sorted(in_order) and in_order[0] == 1
    assert all(rank <= place for place, rank in enumerate(in_order, start=1))
    assert set(found.undecided) <= set(found.order)


@pytest.mark.parametrize(("ratios", "process"), [((1.0, 1.0, 1.0), 0.01), ((1.0, 1.1), 0.01)])
def test_launching_until_every_place_is_decided_is_honest(
    ratios: tuple[float, ...], process: float, simulated: ModuleType
) -> None:
    """Equal targets stay tied although one looks after every launch, and what is 10 % slower is found."""
    rng, panels, right, taken = np.random.default_rng(5), 30, 0, []
    machine = simulated.Machine(process=process, noise=0.03)
    for _ in range(panels):
        drawn = simulated.simulate(rng, [*ratios, ratios[0]], 10, machine, rounds=15, samples=1)
        for launches in range(1, 11):
            *targets, twin = (simulated.first_launches(one, launches) for one in drawn)
            found = ranked(targets, noise_floor(targets[0], twin))
            if not found.undecided:
                break
        taken.append(launches)
        share = found.found_from((targets[0], twin))
        assert share is not None and (share <= 0.08 or launches == 10)
        right += list(found.ranks.values()) == ([1] * 3 if len(ratios) == 3 else [1, 2])
    assert right >= 0.95 * panels - 1
    assert max(taken) > min(taken) >= 2
