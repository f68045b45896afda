"""A phone's condition: Android's texts of several versions, and texts that say nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.places.condition import Condition, changes, parse_condition


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Condition()),
        ("[thermal]\nThermal Status: 0\n", Condition(thermal_status=0)),
        ("[thermal]\r\nThermal Status: 3\r\n", Condition()),
        ("[thermal]\n  Thermal Status: 3 \n", Condition(thermal_status=3)),
        ("[thermal]\nThermal Status: 7\n", Condition()),
        ("[thermal]\nThermal Status: -1\n", Condition()),
        ("[battery]\n  level: 7\n  scale: 10\n", Condition(battery_percent=70)),
        ("[battery]\n  level: 200\n  scale: 100\n", Condition()),
        ("[battery]\n  level: 50\n  scale: 0\n  temperature: 99999\n", Condition(battery_percent=50)),
        ("[battery]\n  AC powered: false\n  USB powered: false\n", Condition(plugged=False)),
        ("[battery]\n  Dock powered: true\n  USB powered: false\n", Condition(plugged=True)),
        ("[battery]\n  Max charging current: 500000\n  temperature: -15\n", Condition(battery_c=-1.5)),
        ("[screen]\n  mScreenState=ON\n  mScreenState=OFF\n", Condition(screen_on=True)),
        ("[screen]\nDisplay Power: state=DOZE\n  mWakefulness=Awake\n", Condition(screen_on=False)),
        ("[screen]\n  mWakefulness=Awake\n", Condition(screen_on=True)),
        ("[screen]\n  mWakefulness=Asleep\n", Condition(screen_on=False)),
        ("[clocks]\n1000 2000\n3000 3000\n", Condition(clock_share=0.5)),
        ("[clocks]\n1000 \n0 0\n3000 2000\n", Condition()),
        ("Thermal Status: 4\n[clocks]\nThermal Status: 4\n", Condition()),
    ],
)
def test_what_is_read(text: str, wanted: Condition) -> None:
    assert parse_condition(text) == wanted


LINES = st.sampled_from(
    ["[thermal]", "[battery]", "[screen]", "[clocks]", "Thermal Status: ", "level: ", "scale: ", "0 0", "1 99999999999"]
)


@given(st.lists(st.tuples(LINES, st.text(max_size=20)), max_size=20))
def test_no_text_stops_it(rows: list[tuple[str, str]]) -> None:
    found = parse_condition("\n".join(line + more for line, more in rows))
    assert str(found).isprintable() and not found.is_worse(found)


def test_throttled_is_what_android_calls_so_or_a_lower_clock_than_at_the_start() -> None:
    cool = Condition(thermal_status=0, clock_share=0.8)
    assert not cool.is_throttled(cool) and not Condition().is_throttled(cool)
    hot, slow = Condition(thermal_status=1, clock_share=0.8), Condition(thermal_status=0, clock_share=0.5)
    assert hot.is_throttled(cool) and hot.is_throttled(hot) and hot.is_worse(cool) and not hot.is_worse(hot)
    assert slow.is_throttled(cool) and slow.is_worse(cool) and not slow.is_throttled(slow)
    assert not Condition(clock_share=0.9).is_throttled(cool)


def test_what_changed_is_told() -> None:
    start, end = Condition(screen_on=True, plugged=True, battery_percent=80), Condition(screen_on=False, plugged=False)
    assert changes(start, start) == () == changes(Condition(), end)
    assert [line.partition(":")[0] for line in changes(start, end)] == ["screen", "charger"]
    assert "12 % left" in changes(start, Condition(battery_percent=12))[0]
    assert changes(start, Condition(battery_percent=12, plugged=True)) == ()
