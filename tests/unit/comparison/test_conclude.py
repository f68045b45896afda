"""A panel concluded from its launches: they are joined, and ties, doubt and interrupts are honest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cross_backend.comparison.joined import deduplicate_warnings, merge, twins
from cross_backend.comparison.panel import conclude
from cross_backend.comparison.settings import Settings
from cross_backend.machine import Machine
from cross_backend.measure.paired import resolution
from cross_backend.measurement import Interval, Measurement
from cross_backend.records import Launch, Outcome
from tests.unit.comparison.panels import NEAR, NOISY, QUICK, SIX, lasting, result, times


def test_a_failure_in_any_launch_is_the_end() -> None:
    good, bad = result(SIX), result(SIX, outcome=Outcome.RUN_FAIL, reason="it died")
    assert merge([bad, good], [6, 6]) == replace(bad, latency=None)
    found = merge([good, good, bad], [6, 6, 6])
    assert (found.outcome, found.latency, found.reason) == (Outcome.RUN_FAIL, None, "in launch 3: it died")


def test_launches_are_joined() -> None:
    cold = Measurement("cold_start.load", "ns", ((5.0,),), (1,))
    first = result(SIX, measurements=(cold,), load_s=1.0, warnings=("busy",), unranked="not on GPU: 0.7 %")
    second = result(SIX, measurements=(cold,), load_s=3.0, warnings=("busy", "hot"))
    found = merge([first, second], [6, 6])
    assert found.latency == Measurement.joined([SIX, SIX]) and found.latency.launches == (6, 6)
    assert found.measurements == (Measurement("cold_start.load", "ns", ((5.0,), (5.0,)), (1, 1)),)
    assert (found.load_s, found.warnings, found.unranked) == (2.0, ("busy", "hot"), "not on GPU: 0.7 %")


def test_an_interrupt_before_the_first_visit_of_a_launch_leaves_its_rounds_empty() -> None:
    """All targets of a panel have the same rounds, or they could not be compared."""
    visited, waiting = result(SIX), result(None)
    launches = [Launch((result(SIX), result(SIX))), Launch((visited, waiting)), Launch((waiting, waiting))]
    panel = conclude("net", launches, QUICK, 1, Machine.here(), interrupted=True)
    one, two = (found.latency for found in panel.results)
    assert one is not None and two is not None
    assert one.launches == two.launches == (6, 6) and two.rounds[6:] == ((),) * 6
    assert [found.rank for found in panel.results] == [1, 1] and panel.launches == 3


def test_what_has_no_rank_keeps_its_latency_and_is_no_contest(draw: Callable[..., list[Measurement]]) -> None:
    fast, middle, slow = draw(1, 2, 4)
    rows = (result(fast, unranked="not on GPU: 0.7 %"), result(middle), result(slow))
    panel = conclude("net", [Launch(rows, result(middle), 1)], QUICK, 4, Machine.here())
    assert [found.rank for found in panel.results] == [None, 1, 2]
    assert all(found.latency_ms is not None and found.workload == "net" for found in panel.results)
    assert (panel.workload, panel.batch) == ("net", 4)
    assert panel.noise_floor == pytest.approx(resolution(1), rel=0.05)
    assert [found.ratio is not None for found in panel.results] == [False, True, True]
    assert panel.results[1].ratio == Interval(1.0, 1.0, 1.0)
    assert panel.results[2].ratio is not None and panel.results[2].ratio.low > 1 and panel.found_from is not None
    assert panel.ranked == [panel.results[1], panel.results[2]]


def test_what_was_started_once_keeps_its_place() -> None:
    """The machine became twice as slow after the first launch, and only the first two saw it."""
    launches = [lasting(9, *NEAR), *[lasting(6, 2.0, 2.02, None)] * 3]
    panel = conclude("net", launches, Settings(), 1, Machine.here())
    assert [found.rank for found in panel.results] == [1, 1, 3] and panel.launches == 4
    first, second, third = panel.results
    assert third.latency is not None and third.latency.launches == (8,) * 4 and third.latency.count == 8
    assert first.ratio == Interval(1.0, 1.0, 1.0)
    assert second.ratio is not None and second.ratio.value == pytest.approx(1.01) and second.ratio.low < 1
    assert third.ratio is not None and third.ratio.value == pytest.approx(3.0)
    assert panel.found_from is not None and panel.found_from <= 0.08
    assert panel.settings["launches"] is None and panel.settings["found_from"] == 0.08


def test_the_twin_may_be_of_another_target_in_every_launch() -> None:
    launches = [lasting(9, 1.0, 1.5), lasting(6, 1.1, 1.4, twin_of=1), replace(lasting(6, 1.0, 1.0), twin=None)]
    pair = twins(launches)
    assert pair is not None and pair[0] == pair[1] and pair[0].launches == (8, 8)
    assert pair[0].rounds[8] == (1.4e6,) and twins(launches[2:]) is None


def test_an_interrupt_between_the_first_visits_ranks_none() -> None:
    """Once all shared the first rank, with medals, because nothing told them apart."""
    two = (result(times(100, 101)), result(times(300, 301)))
    panel = conclude("net", [Launch((*two, result(None, comparison=None)))], QUICK, 1, Machine.here(), interrupted=True)
    assert [found.rank for found in panel.results] == [None] * 3 and panel.found_from is None
    assert [found.unranked for found in panel.results[:2]] == ["interrupted"] * 2
    assert (panel.results[2].outcome, panel.results[2].reason) == (Outcome.NOT_MEASURED, "interrupted")
    assert all(found.unfinished for found in panel.results)
    late = result(Measurement("latency", "ns", (*((900,),) * 5, ()), (6,)))
    panel = conclude("net", [Launch((result(SIX), result(NOISY), late))], QUICK, 1, Machine.here(), interrupted=True)
    assert [found.rank for found in panel.results] == [1, 1, None] and panel.results[2].unranked == "interrupted"


def test_calls_that_are_too_few_rank_none() -> None:
    panel = conclude("net", [Launch((result(times(1, 1)), result(times(9, 9))))], QUICK, 1, Machine.here())
    assert panel.ranked == [] and {found.unranked for found in panel.results} == {"too few calls for a comparison"}
    assert conclude("net", [Launch((result(times(1)),))], QUICK, 1, Machine.here()).ranked, "alone there is no other"


def test_warnings_that_differ_in_their_numbers_are_told_once() -> None:
    texts = ("steal: 3.5 % of it", "it computes bf16", "steal: 4 % of it", "it computes bf16", "steal: 1,000 % of it")
    assert deduplicate_warnings(texts) == ("steal: 3.5 % of it (the first of 3 such warnings)", "it computes bf16")
