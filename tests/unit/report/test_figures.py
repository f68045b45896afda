"""Figures: the unit that reads best, and no digit that the interval does not know."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.measurement import Interval
from cross_backend.report import figures

ONE = Interval(1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(1.1523, 1.1204, 1.1811), "1.15 [1.12, 1.18]"),
        (Interval(1.1523, 1.1411, 1.1634), "1.152 [1.141, 1.163]"),
        (Interval(1.1523, 1.15229, 1.15231), "1.152 [1.152, 1.152]"),
        (Interval(110.31, 95.7, 127.2), "110 [96, 127]"),
        (Interval(386.2, 330.1, 447.9), "390 [330, 450]"),
        (Interval(12345.6, 12000.0, 12700.0), "12,300 [12,000, 12,700]"),
        (Interval(1.0, 0.519, 1.927), "1.0 [0.52, 1.9]"),
        (Interval(7.77, 0.0772, 782.5), "7.8 [0.077, 780]"),
        (Interval(1.17, 0.938, 1.46), "1.2 [0.9, 1.5]"),
        (Interval(2.0, 0.01, 1e300), "2.0 [0.010, ∞]"),
        (ONE, "1"),
        (None, "–"),
    ],
)
def test_a_ratio_has_the_digits_that_its_interval_knows(found: Interval | None, text: str) -> None:
    assert figures.ratio(found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(1.03, 1.004, 1.06), "1.030 [1.004, 1.060]"),
        (Interval(0.97, 0.94, 0.996), "0.970 [0.940, 0.996]"),
        (Interval(1.03, 1.0, 1.06), "1.03 [1.00, 1.06]"),
    ],
)
def test_an_interval_that_leaves_out_1_is_seen_to_do_so(found: Interval, text: str) -> None:
    assert figures.ratio(found) == text


@given(st.floats(0.1, 1000), st.floats(1.001, 3))
def test_rounding_stays_within_half_of_the_interval(value: float, factor: float) -> None:
    found = Interval(value, value / factor, value * factor)
    shown = float(figures.ratio(found).partition(" ")[0].replace(",", ""))
    assert abs(shown - value) <= max((found.high - found.low) / 4, value / 1000) + 1e-9


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (12345.0, "12.3 s"), (3.502, "3.50 ms"), (386.0, "386 ms"), (0.0421, "42.1 µs"), (0.9, "900 µs"),
        (0.000093, "93.0 ns"), (0.0, "0 ns"),
    ],
)  # fmt: skip
def test_a_duration_is_in_the_unit_that_reads_best(value_ms: float, text: str) -> None:
    assert figures.duration(value_ms) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(3.502, 3.216, 3.590), "3.50 ms [3.22, 3.59]"),
        (Interval(0.0042131, 0.004212, 0.0042142), "4.213 µs [4.212, 4.214]"),
        (Interval(386.0, 330.0, 447.0), "390 ms [330, 450]"),
        (Interval(3.0, 1.0, 9.0), "3 ms [1.0, 9.0]"),
    ],
)
def test_a_duration_has_the_digits_that_its_interval_knows(found: Interval, text: str) -> None:
    assert f"{figures.duration(found.value, found)} {figures.interval(found)}" == text


@given(st.floats(-5, 5).map(lambda exponent: 10.0**exponent))
def test_a_duration_without_an_interval_has_three_digits(value_ms: float) -> None:
    figure, unit = figures.duration(value_ms).split()
    scale = {name: scale for scale, name in figures.UNITS}[unit]
    assert float(figure.replace(",", "")) * scale == pytest.approx(value_ms, rel=0.005)


def test_points_and_brackets_stand_below_each_other() -> None:
    shown = figures.aligned(["1", "1.15 [1.12, 1.18]", "9.2 [8.9, 9.5]", "110 [96, 127]"])
    assert [line.rstrip() for line in shown] == ["  1", "  1.15 [1.12, 1.18]", "  9.2  [8.9, 9.5]", "110    [96, 127]"]
    assert len(set(map(len, shown))) == 1 and figures.aligned([]) == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Interval(1.152, 1.121, 1.181), "A is faster than B by 15 % [12, 18]"),
        (Interval(1.0311, 1.0021, 1.0581), "A is faster than B by 3.1 % [0.2, 5.8]"),
        (Interval(110.3, 95.7, 127.2), "A is 110 [96, 127] times as fast as B"),
    ],
)
def test_how_much_faster(found: Interval, text: str) -> None:
    assert figures.faster("A", "B", found) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [(0.222, "23 %"), (0.08, "8.0 %"), (0.0832, "8.4 %"), (0.0999, "10 %"), (0.00512, "0.52 %"), (1.234, "2.3 times"),
     (142.6, "150 times"),
     (0.0, "0 %"), (math.inf, "inf %")],
)  # fmt: skip
def test_a_size_that_is_found_is_rounded_up(found: float, text: str) -> None:
    assert figures.share(found) == text
