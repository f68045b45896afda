"""Cooling: pauses that end, rounds that throttled, and sites that tell no condition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cross_backend.comparison import cooling, launch
from cross_backend.comparison.blocks import ROUNDS
from cross_backend.comparison.contestant import Contestant, described
from cross_backend.comparison.cooling import ALL_THROTTLED, Cooling
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Here
from cross_backend.exporting.export import Exported
from cross_backend.places.condition import Condition
from cross_backend.records import Outcome

SETTINGS = Settings(num_runs=30, seconds=1.0, launches=1)
COOL, HOT = Condition(thermal_status=0, screen_on=True), Condition(thermal_status=2, screen_on=True)


class Phone(Here):
    """A site that is in one condition after the other, and stays in the last."""

    def __init__(self, *conditions: Condition) -> None:
        self._left = list(conditions)
        self.looks = 0

    def condition(self) -> Condition:
        self.looks += 1
        return self._left.pop(0) if len(self._left) > 1 else self._left[0]


class Clock:
    """Time passes only in sleep."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    found = Clock()
    monkeypatch.setattr(cooling, "time", found)
    return found


def measured(phone: Here, monkeypatch: pytest.MonkeyPatch, *, skip: bool = False):
    """Run all rounds of two targets; return them, the warnings, and what was shown."""
    shown: list[str] = []
    contestants = [
        Contestant(row, described("net", row)) for row in (Exported("a", Outcome.OK), Exported("b", Outcome.OK))
    ]
    monkeypatch.setattr(launch, "_block", lambda *_: (1, 2))
    watch = Cooling(phone, shown.append)
    watch.begin()
    launch._measure(contestants, SETTINGS, 0, lambda _turn: None, watch)
    return contestants, watch.finish(contestants, skip=skip), shown


def test_a_site_that_tells_nothing_is_left_alone(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    contestants, warnings, shown = measured(HERE, monkeypatch, skip=True)
    assert warnings == () and shown == [] and clock.now == 0
    assert all(len(one.rounds) == ROUNDS and all(one.rounds) for one in contestants)


def test_a_cool_phone_is_looked_at_once_a_round(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    phone = Phone(COOL)
    assert measured(phone, monkeypatch)[1:] == ((), []) and clock.now == 0
    assert phone.looks == ROUNDS + 1


def test_a_phone_that_is_unknown_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    assert measured(Phone(Condition()), monkeypatch)[1:] == ((), []) and clock.now == 0


@pytest.mark.parametrize("skip", [False, True])
def test_a_throttled_round_is_told_and_may_be_left_out(
    skip: bool, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    """Hot after the second round: that one is marked; a pause of three looks lets it cool."""
    phone = Phone(COOL, COOL, HOT, HOT, HOT, COOL)
    contestants, warnings, shown = measured(phone, monkeypatch, skip=skip)
    heat = f"heat: the device throttled in 1 of {ROUNDS} rounds (thermal status 2, moderate); "
    assert warnings[0] == heat + ("these rounds do not count" if skip else "--skip-throttled leaves these rounds out")
    assert warnings[1:] == ("heat: pauses of 6 s in all let the device cool",)
    assert [text.partition(",")[0] for text in shown] == ["let the device cool"] * 3 and clock.now == 6
    for one in contestants:
        assert [turn for turn, calls in enumerate(one.rounds) if not calls] == ([1] if skip else [])
        latency = one.measured(ROUNDS).latency
        assert latency is not None and latency.launches == (ROUNDS,) and one.result.unranked is None


def test_pauses_have_a_bound(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    contestants, warnings, _ = measured(Phone(COOL, HOT), monkeypatch, skip=True)
    assert cooling.PAUSES_S <= clock.now <= cooling.PAUSES_S + cooling.LOOK_S
    assert f"in {ROUNDS} of {ROUNDS} rounds" in warnings[0]
    for one in contestants:
        assert one.measured(ROUNDS).latency is None and one.result.unranked == ALL_THROTTLED


def test_a_phone_that_is_hot_at_the_start_waits_once_and_is_marked(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    _, warnings, _ = measured(Phone(HOT), monkeypatch)
    assert cooling.PAUSE_S <= clock.now <= cooling.PAUSE_S + cooling.LOOK_S
    assert f"in {ROUNDS} of {ROUNDS} rounds" in warnings[0]


def test_a_screen_that_goes_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    _, warnings, _ = measured(Phone(COOL, Condition(thermal_status=0, screen_on=False)), monkeypatch)
    assert warnings == ("screen: it was turned off during the launch",)
