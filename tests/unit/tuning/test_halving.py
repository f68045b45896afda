"""Halving: who is clearly slower leaves, the better half stays, and the best is found with a part of the calls."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from cross_backend.comparison.blocks import ROUNDS
from cross_backend.measurement import Measurement
from cross_backend.tuning.halving import FINALISTS, Key, Rungs, Standings, race

EMPTY: tuple[tuple[float, ...], ...] = ((),) * ROUNDS


class Speeds:
    """Candidates of known speed whose launches scatter as processes do; every panel has rounds of its own."""

    def __init__(self, truth: dict[Key, float], seed: int = 0) -> None:
        self.truth, self.random = truth, random.Random(seed)
        self.rounds: dict[Key, list[tuple[tuple[float, ...], ...]]] = {key: [] for key in truth}
        self.told: list[tuple[int, list[Key]]] = []

    def measure(self, keys: Sequence[Key], rung: int) -> None:
        assert len({key[0] for key in keys}) == 1 and len(set(keys)) == len(keys)
        self.told.append((rung, list(keys)))
        for key in self.truth:
            if key[0] != keys[0][0]:
                continue
            process = self.truth[key] * self.random.gauss(1.0, 0.01)
            calls = tuple((process * self.random.gauss(1.0, 0.005),) for _ in range(ROUNDS))
            self.rounds[key].append(calls if key in keys else EMPTY)

    def standings(self) -> Standings:
        measured = {
            key: Measurement(
                "latency", "ns", tuple(row for launch in launches for row in launch), (ROUNDS,) * len(launches)
            )
            for key, launches in self.rounds.items()
            if any(launch is not EMPTY for launch in launches)
        }
        return Standings(measured, {})

    def starts(self, key: Key | None = None) -> int:
        return sum(len(keys) if key is None else key in keys for _, keys in self.told)


def raced(speeds: Speeds, rungs: Rungs | None = None) -> list[Key]:
    return race(list(speeds.truth), speeds.measure, speeds.standings, rungs or Rungs())


def test_the_fastest_of_many_wins_with_few_launches() -> None:
    speeds = Speeds({(0, index): 1e6 * (1 + index / 4) for index in range(20)})
    assert raced(speeds)[0] == (0, 0)
    assert speeds.starts((0, 19)) == 1, "who is clearly slower is not started again"
    assert speeds.starts() < 0.4 * 5 * 20


def test_a_single_leader_ends_the_race() -> None:
    speeds = Speeds({(0, 0): 1e6, (0, 1): 3e6, (0, 2): 5e6})
    assert raced(speeds) == [(0, 0)]
    assert speeds.told == [(0, [(0, 0), (0, 1), (0, 2)])]


def test_equals_are_halved_to_the_finalists_who_get_all_launches() -> None:
    speeds = Speeds({(0, index): 1e6 for index in range(16)})
    left = raced(speeds)
    assert len(left) <= FINALISTS
    by_rung = [sum(len(keys) for rung, keys in speeds.told if rung == one) for one in range(5)]
    assert by_rung[0] == 17 and by_rung[1] <= 8 and by_rung[2] <= 4 and by_rung[3:] == [len(left)] * 2


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(one, marks=pytest.mark.slow) for one in range(3, 10))])
def test_regret_is_small_whatever_chance_does(seed: int) -> None:
    speeds = Speeds({(0, index): 1e6 * (1 + index * 0.01) for index in range(24)}, seed)
    winner = raced(speeds)[0]
    assert speeds.truth[winner] <= 1.03e6


def test_heats_have_the_fastest_so_far_as_their_anchor() -> None:
    speeds = Speeds({(0, index): 1e6 * (5 if index < 8 else 1) + index * 3e5 for index in range(20)})
    raced(speeds)
    heats = [keys for rung, keys in speeds.told if rung == 0]
    assert [len(heat) for heat in heats] == [7, 8, 7] and all(len(heat) <= 9 for heat in heats)
    assert heats[1][0] == (0, 0) and heats[2][0] == (0, 8)


def test_panels_are_compared_by_what_each_measured_at_its_own_time() -> None:
    """Batch sizes are measured in launches of their own: only a large difference tells between single launches."""
    speeds = Speeds({(0, 0): 1e6, (0, 1): 1.02e6, (1, 0): 5e5, (1, 1): 5.1e5})
    left = raced(speeds)
    assert {key[0] for key in left} == {1}, "the other panel is twice as slow"
    assert all(len({key[0] for key in keys}) == 1 for _, keys in speeds.told)


def test_an_exhaustive_race_measures_all() -> None:
    speeds = Speeds({(0, index): 1e6 * (1 + index) for index in range(10)})
    left = raced(speeds, Rungs(3, is_exhaustive=True))
    assert len(left) == 10 and all(speeds.starts(key) >= 3 for key in speeds.truth)
    assert Rungs(is_exhaustive=True).share(0) == 1
    assert [Rungs().share(rung) for rung in (0, 1, 2, 3, 9)] == [0.125, 0.25, 0.5, 1, 1]


def test_who_is_out_of_bounds_takes_no_place() -> None:
    """Standings hold who may still win: others are neither anchors nor kept."""
    speeds = Speeds({(0, index): 1e6 * (1 + index) for index in range(3)})
    everyone = speeds.standings

    def within() -> Standings:
        found = everyone()
        return Standings({key: found._measured[key] for key in found.order if key != (0, 0)}, {})

    assert race(list(speeds.truth), speeds.measure, within, Rungs()) == [(0, 1)]


def test_nobody_raced_is_nobody_left() -> None:
    assert race([], lambda keys, rung: pytest.fail("nothing is there"), lambda: Standings({}, {}), Rungs()) == []
