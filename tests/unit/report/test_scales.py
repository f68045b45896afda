"""Scales: every value has a finite place inside, whatever the values are."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.report.charts.scales import Scale, scale, tick_text

POSITIVE = st.lists(st.floats(1e-9, 1e12), min_size=0, max_size=8)
ANY = st.lists(st.floats(-1e9, 1e9), min_size=0, max_size=8)


@given(POSITIVE)
def test_logarithmic_places_are_inside_and_in_order(values: list[float]) -> None:
    axis = scale(values, 50.0, 600.0, log=True)
    places = [axis(value) for value in sorted(values)]
    assert all(50 <= place <= 600 for place in places)
    assert places == sorted(places)


@given(ANY, st.booleans())
def test_linear_places_are_inside(values: list[float], zero: bool) -> None:
    axis = scale(values, 250.0, 10.0, zero=zero)
    assert all(10 <= axis(value) <= 250 for value in values)
    if zero:
        assert axis(0.0) == 250.0


@given(POSITIVE, st.booleans())
def test_ticks_are_few_distinct_and_inside(values: list[float], log: bool) -> None:
    axis = scale(values, 0.0, 1.0, log=log)
    ticks = axis.ticks(6)
    assert 1 <= len(ticks) <= 13
    assert ticks == sorted(set(ticks))
    assert all(axis.low * (1 - 1e-9) - 1e-12 <= tick <= axis.high * (1 + 1e-9) + 1e-12 for tick in ticks)


def test_round_ticks() -> None:
    assert Scale(0.0, 1.0, 0, 1).ticks(5) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert Scale(0.9, 120.0, 0, 1, log=True).ticks(6) == [1.0, 3.0, 10.0, 30.0, 100.0]
    assert all(math.isfinite(tick) for tick in Scale(1.0, 1.05, 0, 1, log=True).ticks())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1 + 0.2, "0.3"),
        (1500.0, "1500"),
        (25000.0, "25,000"),
        (1e-6, "1e-6"),
        (2e9, "2e9"),
        (0.025, "0.025"),
    ],
)
def test_tick_labels_are_short(value: float, text: str) -> None:
    assert tick_text(value) == text
