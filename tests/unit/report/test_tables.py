"""Tables: numbers that say neither more nor less than is known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cross_backend.records import Comparison, Panel
from cross_backend.report import tables

WRONG = Comparison(math.nan, math.nan, math.nan, math.nan, 1e-4, verdict=False, reason="shape")


@given(st.floats(-4, 5).map(lambda exponent: 10.0**exponent))
def test_a_duration_has_at_least_three_significant_digits(value: float) -> None:
    assert float(tables.milliseconds(value)) == pytest.approx(value, rel=0.005)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (2_540_000, "2.5 MB"), (1_200_000_000, "1.2 GB")],
)
def test_sizes_have_the_units_that_people_use(size_bytes: int | None, text: str) -> None:
    assert tables.size(size_bytes) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "–"), (0.0, "0.0 %"), (0.5, "50.0 %"), (0.99949, "99.9 %"), (0.999999, "99.9 %"), (1.0, "100 %")],
)
def test_only_all_is_100_percent(share: float | None, text: str) -> None:
    assert tables.percent(share) == text


def test_errors_and_ratios_are_short() -> None:
    comparison = Comparison(1.0, 2.34e-6, 117.4, 1.0, 1e-4, verdict=True)
    assert (tables.error(comparison), tables.decibels(comparison)) == ("2.3e-06", "117")
    assert (tables.error(None), tables.decibels(None)) == ("–", "–")


def test_a_share_is_in_percent_and_a_perplexity_is_a_number() -> None:
    assert tables.score("top-1 accuracy", 0.975) == "97.5 %" and tables.score("spread", 1.5) == "1.5"
    assert tables.score("perplexity", 4.4469) == "4.447" and tables.score("perplexity", 1.0) == "1"
    assert tables.score("perplexity", None) == "–"


def test_only_equal_outputs_are_called_equal() -> None:
    equal = Comparison(0.0, 0.0, math.inf, 1.0, 1e-4, verdict=True)
    assert tables.decibels(equal) == "equal"
    assert tables.decibels(WRONG) != "equal"
    assert tables.decibels(replace(WRONG, sqnr_db=-math.inf)) != "equal"


def test_the_ranking_has_a_cell_for_every_header(panel: Panel) -> None:
    table = tables.ranking(panel)
    assert [row[0] for row in table.rows] == ["1", "2", "2", "4"]
    assert [row[1] for row in table.rows] == ["Fast", "Tied", "Also", "Slow"]
    assert {len(row) for row in table.rows} == {len(table.headers)}
    assert table.headers == (*tables.RANKING, "output", "top-1 accuracy")
    fast, tied, _, slow = (dict(zip(table.headers, row, strict=True)) for row in table.rows)
    assert (fast["runs"], fast["SQNR dB"], fast["coverage"], fast["size"]) == ("300", "equal", "100 %", "2.5 MB")
    assert (fast["ratio"], fast["median"], fast["95 % interval"]) == ("1", "500 µs", "[495, 505]")
    assert (tied["ratio"], slow["ratio"], slow["coverage"]) == ("4.00 [3.92, 4.08]", "400 [392, 408]", "90.0 %")


TABLE = tables.Table(
    "", ("name", "a", "b", "empty"), (("n" * 12, "123", "1.5 ms", "–"), ("m", "7", "20.5 ms", "")), (1, 2, 3)
)


def test_columns_without_a_figure_go() -> None:
    assert TABLE.filled.headers == ("name", "a", "b") and TABLE.filled.numeric == (1, 2)


def test_ties_are_groups_of_one_rank(panel: Panel) -> None:
    assert [[result.title for result in group] for group in tables.ties(panel)] == [["Tied", "Also"]]


def test_a_speed_up_needs_two_that_differ(panel: Panel) -> None:
    gain = tables.speedup(panel)
    assert gain is not None and (gain[0], gain[1].title) == ("400", "Slow"), "people ship each of these"
    also, slow = (next(r for r in panel.ranked if r.title == title) for title in ("Also", "Slow"))
    reference = replace(slow, target="executorch.portable")
    others = [result for result in panel.ranked if result not in (also, slow)]
    assert tables.speedup(replace(panel, results=(*others, also, reference))) is None, "a kernel that is not to be fast"
    eager = replace(also, target="torch.eager?threads=2")
    gain = tables.speedup(replace(panel, results=(*others, eager, reference)))
    assert gain is not None and gain[1] == eager
    tied = tuple(replace(result, rank=1) for result in panel.ranked)
    assert tables.speedup(replace(panel, results=tied)) is None
    assert tables.speedup(replace(panel, results=tied[:1])) is None
    assert tables.speedup(replace(panel, results=())) is None
