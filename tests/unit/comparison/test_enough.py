"""How many launches are enough, and which targets are started again."""

from __future__ import annotations

import pytest

from cross_backend.comparison.panel import enough, undecided
from cross_backend.comparison.settings import Settings
from cross_backend.records import Launch, Outcome
from tests.unit.comparison.panels import AGAIN, FAR, NEAR, NOISY, QUICK, SIX, lasting, result


@pytest.mark.parametrize(
    ("launches", "settings", "answer"),
    [
        ([], QUICK, False),
        ([Launch((result(None, outcome=Outcome.LOAD_FAIL),))], Settings(launches=5), True),
        ([Launch((result(SIX, outcome=Outcome.RUN_FAIL),))], Settings(launches=5), True),
        ([Launch((result(SIX),))], Settings(launches=2), False),
        ([Launch((result(SIX),))] * 2, Settings(launches=2), True),
        ([Launch((result(SIX),))] * 2, Settings(launches=2, margin=0.01), True),
        ([Launch((result(SIX), result(NOISY)))] * 2, Settings(launches=2, margin=0.001), False),
        ([Launch((result(SIX), result(NOISY)))] * 3, Settings(launches=2, margin=0.001, max_launches=3), True),
    ],
    ids=["none", "nothing opens", "nothing runs", "too few", "as asked", "alone", "not precise", "too many"],
)
def test_launching_ends_when_it_is_enough(launches: list[Launch], settings: Settings, answer: bool) -> None:
    assert enough(launches, settings) is answer


@pytest.mark.parametrize(
    ("launches", "answer", "again"),
    [
        ([lasting(9, *FAR)], True, []),
        ([lasting(9, *NEAR)], False, [0, 1]),
        ([lasting(9, *NEAR), lasting(6, *AGAIN)], False, [0, 1]),
        ([lasting(9, *NEAR)] + [lasting(6, *AGAIN)] * 3, True, []),
        ([lasting(41, *NEAR)], True, [0, 1]),
        ([lasting(39, *NEAR)], False, [0, 1]),
        ([lasting(39, *NEAR), lasting(20, *AGAIN)], True, [0, 1]),
    ],
    ids=["clear", "near", "not yet", "detected", "long", "less long", "the box is full"],
)
def test_launching_goes_on_until_every_place_is_decided(launches: list[Launch], answer: bool, again: list[int]) -> None:
    """What is clearly apart from its neighbours is not started again, and nothing is that would end after 60 s."""
    settings = Settings()
    assert enough(launches, settings) is answer
    assert undecided(launches, settings) == again


def test_no_more_launches_than_share_the_runs() -> None:
    alike = [lasting(1, 1.0, 1.0), lasting(1, 1.0, 1.3), lasting(1, 1.0, 0.8)]
    assert not enough(alike, Settings())
    assert enough(alike, Settings(num_runs=20)), "six rounds each, at least"
