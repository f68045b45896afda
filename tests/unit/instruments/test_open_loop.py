"""Open loop: arrivals are those of a Poisson process, nothing is omitted while the server is busy."""

from __future__ import annotations

import gc
import statistics
from itertools import pairwise

import pytest

from cross_backend.instruments.open_loop import MAX_REQUESTS, arrivals_ns, by_window, serve
from cross_backend.measure import latency
from tests.unit.conftest import Clock

STALL_S = 0.5


class _StallsOnce:
    """Takes a millisecond, and half a second in one call."""

    def __init__(self, at: int, clock: Clock) -> None:
        self._at, self._calls, self._clock = at, 0, clock

    def __call__(self) -> None:
        self._calls += 1
        self._clock.sleep(STALL_S if self._calls == self._at else 0.001)


def test_arrivals_are_those_of_a_poisson_process() -> None:
    arrivals = arrivals_ns(1000, 20, seed=3)
    gaps = [b - a for a, b in pairwise([0, *arrivals])]
    assert len(arrivals) == pytest.approx(20_000, rel=0.03) and arrivals[-1] < 20e9
    assert statistics.fmean(gaps) == pytest.approx(1e6, rel=0.03)
    assert statistics.stdev(gaps) == pytest.approx(1e6, rel=0.05), "the gaps of an exponential distribution"
    assert arrivals == arrivals_ns(1000, 20, seed=3) != arrivals_ns(1000, 20, seed=4)
    assert arrivals == sorted(arrivals)


def test_there_is_always_a_request_and_never_too_many() -> None:
    assert len(arrivals_ns(0.001, 1, seed=0)) == 1
    assert len(arrivals_ns(1e9, 10, seed=0)) == MAX_REQUESTS


def test_a_stall_is_seen_by_every_request_that_met_it(clock: Clock) -> None:
    """What a closed loop hides: it asks nothing during the stall, and sees one slow call."""
    closed = latency.sample(_StallsOnce(31, clock), samples=100, warmup=0, seconds=60)
    assert sum(ns > 0.1e9 for ns in closed.ns) == 1
    arrivals = arrivals_ns(100, 1.5, seed=0)
    opened = serve(_StallsOnce(31, clock), arrivals, 100)
    met = sum(0 < due - arrivals[29] < (STALL_S - 0.1) * 1e9 for due in arrivals)
    assert sum(ns > 0.1e9 for ns in opened.ns) >= met + 1 > 20
    assert max(opened.ns) >= STALL_S * 1e9
    assert len(opened.ns) == opened.offered == len(arrivals)
    assert not opened.saturated, "it caught up"


def test_an_idle_server_answers_in_the_duration_of_a_call(clock: Clock) -> None:
    opened = serve(lambda: clock.sleep(0.002), arrivals_ns(50, 0.6, seed=1), 50)
    assert min(opened.ns) >= 2_000_000
    assert statistics.median(opened.ns) == pytest.approx(2_000_000, rel=0.01)
    assert opened.busy == pytest.approx(0.1, rel=0.01)


def test_more_than_it_can_serve_is_saturation(clock: Clock) -> None:
    arrivals = arrivals_ns(400, 0.5, seed=0)
    opened = serve(lambda: clock.sleep(0.01), arrivals, 400)
    assert opened.busy > 3 and opened.saturated
    late = by_window(opened.ns, arrivals)
    assert statistics.median(late[-1]) > statistics.median(late[0]), "the queue grows"


def test_a_run_ends_although_its_queue_does_not(clock: Clock) -> None:
    opened = serve(lambda: clock.sleep(0.1), arrivals_ns(1000, 0.2, seed=0), 1000)
    assert clock.perf_counter_ns() < 2e9, "twice the arrivals' time, a second, and the calls at both ends"
    assert len(opened.ns) < opened.offered and opened.saturated


def test_windows_divide_the_requests_by_when_they_were_due() -> None:
    assert by_window([1, 2, 3, 4], [0, 10, 11, 99], windows=10) == [[1], [2, 3], [4]]
    assert by_window([1, 2], [0, 10, 99], windows=10) == [[1], [2]], "what was not served has no latency"


def test_the_collector_is_as_it_was() -> None:
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        serve(lambda: 1 / 0, [0], 1)
    assert gc.isenabled()
