"""Outcomes: every way to end has its mark and its meaning, and a reason is told once."""

from __future__ import annotations

import pytest

from cross_backend.records import Outcome, Result
from cross_backend.report import outcomes
from cross_backend.report.terminal import _PLAIN


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_its_mark_and_its_meaning(outcome: Outcome) -> None:
    assert outcomes.MARKS[outcome] in _PLAIN, "a pipe gets a word for it"
    assert (outcome in outcomes.MEANINGS) == (outcome is not Outcome.OK)


def test_reasons_are_told_once_in_the_order_of_the_targets() -> None:
    ends = [
        ("a", Outcome.UNAVAILABLE, "no driver"),
        ("b", Outcome.OK, None),
        ("c", Outcome.RUN_FAIL, "no driver"),
        ("d", Outcome.UNAVAILABLE, "no driver"),
        ("d", Outcome.UNAVAILABLE, "no driver"),
        ("e", Outcome.TIMEOUT, None),
    ]
    results = [Result("net", title, title, outcome, reason) for title, outcome, reason in ends]
    assert outcomes.reasons(results) == [
        (Outcome.UNAVAILABLE, "no driver", "a, d"),
        (Outcome.RUN_FAIL, "no driver", "c"),
        (Outcome.TIMEOUT, "no reason was given", "e"),
    ]
