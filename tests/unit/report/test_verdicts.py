"""Verdicts: what to ship and why, and sentences about differences that are true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cross_backend.measurement import Interval
from cross_backend.placement import Operators, Placement
from cross_backend.records import Outcome, Panel, Result
from cross_backend.report import verdicts
from tests.unit.report.conftest import ranked
from tests.unit.report.studies import MACHINE


def panel(*results: Result, found_from: float | None = 0.083) -> Panel:
    return Panel("net", results, 0.03, {"threads": 1}, MACHINE, found_from=found_from)


def of(title: str, size_bytes: int | None, left: int = 0) -> Result:
    """Give a target that shares the first rank."""
    held = Placement({}, (Operators("conv", 9),), (Operators("sort", left),) if left else ())
    return replace(ranked(title, 1, 0.5), size_bytes=size_bytes, placement=held)


def test_the_fastest_that_is_right_is_shipped() -> None:
    wrong = Result("net", "w", "Wrong", Outcome.MISMATCH, "off by 7")
    found = panel(wrong, ranked("Slow", 2, 5.0), ranked("Fast", 1, 0.5))
    assert verdicts.ship(found) == "Ship Fast, because it is the fastest that is right: 500 µs a call."
    assert verdicts.told_apart(found) == "Fast is 10.0 [9.8, 10.2] times as fast as Slow."


def test_alone_it_is_shipped_because_it_alone_is_right() -> None:
    found = panel(ranked("Fast", 1, 0.5), Result("net", "w", "Wrong", Outcome.MISMATCH, "off by 7"))
    assert verdicts.ship(found) == "Ship Fast, because it alone was proved right and measured here: 500 µs a call."
    assert verdicts.told_apart(found) == ""


@pytest.mark.parametrize("results", [(), (Result("net", "w", "Wrong", Outcome.MISMATCH, "off by 7"),)])
def test_what_is_not_right_is_never_shipped(results: tuple[Result, ...]) -> None:
    assert verdicts.ship(panel(*results)) == "Ship none of these: no target was both proved right and measured."


EQUAL = "A, B and C share the first rank"


@pytest.mark.parametrize(
    ("tied", "text"),
    [
        (
            (of("A", 10_000_000), of("B", 2_500_000), of("C", 10_100_000)),
            f"Ship B, because it has the smallest file (2.5 MB, the next 10.0 MB): {EQUAL} at 500 µs a call.",
        ),
        (
            (of("A", 10_000_000, 1), of("B", 10_100_000), of("C", 10_100_000, 3)),
            f"Ship B, because it has the best coverage (100 %, the next 90.0 %): {EQUAL} at 500 µs a call.",
        ),
        (
            (of("A", 2_500_000, 1), of("B", 2_500_000), of("C", 10_000_000)),
            (
                "Ship B, because it has the smallest file (2.5 MB, the next 10.0 MB) and the best coverage "
                f"(100 %, the next 90.0 %): {EQUAL} at 500 µs a call."
            ),
        ),
        (
            (of("A", 2_500_000), of("B", 2_500_000), of("C", 2_510_000)),
            f"Ship A, B or C: {EQUAL}, and nothing else decides.",
        ),
        (
            (of("A", 2_500_000), of("B", 2_500_000), of("C", 9_000_000)),
            (
                "Ship A or B, which have the smallest file (2.5 MB, the next 9.0 MB): A, B and C share the first rank, "
                "and nothing else decides."
            ),
        ),
        ((of("A", None), of("B", 1), of("C", 2)), f"Ship A, B or C: {EQUAL}, and nothing else decides."),
    ],
)
def test_between_equals_the_file_decides_then_the_coverage(tied: Sequence[Result], text: str) -> None:
    found = panel(*tied, ranked("Slow", 4, 5.0))
    assert verdicts.ship(found) == text
    assert verdicts.told_apart(found).endswith(" times as fast as Slow.")
    assert verdicts.told_apart(panel(*tied)) == "No difference was found."


def test_equals_of_a_rough_measurement_are_no_equals() -> None:
    found = panel(of("A", 10_000_000), of("B", 2_500_000), found_from=51.0)
    assert verdicts.ship(found) == (
        "Ship none yet: A and B share the first rank, but only a difference of 52 times or more would surely be found; "
        "measure again on a quieter machine, or with more launches."
    )
    assert verdicts.ship(replace(found, found_from=0.3)).startswith("Ship B, because")
    assert verdicts.ship(panel(of("A", 1), ranked("B", 2, 5.0), found_from=51.0)).startswith("Ship A, because")


def test_what_was_told_apart_has_its_size() -> None:
    next_one = replace(ranked("OpenVINO", 2, 0.6), ratio=Interval(1.152, 1.121, 1.181))
    found = panel(ranked("XNNPACK", 1, 0.5), next_one)
    assert verdicts.told_apart(found) == "XNNPACK is faster than OpenVINO by 15 % [12, 18]."
    unpaired = panel(ranked("XNNPACK", 1, 0.5), replace(next_one, ratio=None))
    assert verdicts.told_apart(unpaired) == "OpenVINO takes longer."


def test_the_size_that_is_surely_found_is_said_to_be_no_limit() -> None:
    """A smaller difference may have been found: that it "cannot be told apart" would be false."""
    pair = (ranked("Fast", 1, 0.5), ranked("Slow", 2, 5.0))
    good, rough, unknown = (panel(*pair, found_from=found) for found in (0.083, 0.2, None))
    alone = panel(pair[0])
    assert verdicts.surely_found([good]) == (
        "A difference of 8.3 % or more would surely be found (95 of 100 times); smaller ones may be."
    )
    assert verdicts.surely_found([good, alone, rough]) == (
        "In every panel a difference of 20 % or more would surely be found (95 of 100 times; in the best panel from "
        "8.3 % on); smaller ones may be."
    )
    assert verdicts.surely_found([good, unknown]) == (
        "In 1 of 2 panels too little was measured; in the others a difference of 8.3 % or more would surely be found "
        "(95 of 100 times); smaller ones may be."
    )
    assert "Too little was measured" in verdicts.surely_found([unknown, alone])
    assert verdicts.surely_found([]) == verdicts.surely_found([alone]) == ""


def test_a_reader_is_told_where_medians_and_ratios_tell_different_stories() -> None:
    fast, slow = ranked("Fast", 1, 0.5), ranked("Slow", 2, 5.0)
    assert verdicts.disturbed(panel(fast, slow)) == verdicts.disturbed(panel(fast)) == verdicts.disturbed(panel()) == ""
    assert verdicts.disturbed(panel(fast, replace(slow, ratio=None))) == ""
    calm = replace(slow, ratio=Interval(1.03, 0.88, 1.21))
    assert verdicts.disturbed(panel(fast, calm)).startswith("Medians and ratios tell different stories")
