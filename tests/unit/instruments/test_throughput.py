"""Throughput: streams that work at once, calls that are shared out between windows, failures that end all streams."""

from __future__ import annotations

import threading
import time

import pytest

from cross_backend.instruments.throughput import closed_loop
from tests.unit.conftest import Clock


def rate(streams: int, call_s: float, seconds: float = 0.5) -> float:
    counted = closed_loop([lambda: time.sleep(call_s)] * streams, seconds)
    return sum(counted.calls) / (len(counted.calls) * counted.window_ns) * 1e9


def test_two_streams_of_a_sleeping_call_do_twice_as_much_as_one() -> None:
    ratios = [0.0]
    while len(ratios) < 10 and not 1.7 < ratios[-1] < 2.3:  # a busy machine wakes sleepers late
        ratios.append(rate(2, 0.01) / rate(1, 0.01))
    assert 1.7 < ratios[-1] < 2.3, ratios


def test_every_window_counts_the_calls_that_fit_into_it(clock: Clock) -> None:
    counted = closed_loop([lambda: clock.sleep(0.01)], 0.5, windows=5)
    assert (len(counted.calls), counted.window_ns) == (5, 100_000_000)
    assert all(calls == pytest.approx(10, rel=0.01) for calls in counted.calls)


def test_calls_longer_than_the_loop_count_by_their_share(clock: Clock) -> None:
    """0.2 s of calls of 0.3 s are two thirds of a call: neither none nor a whole one."""
    counted = closed_loop([lambda: clock.sleep(0.3)], 0.2, windows=4)
    assert sum(counted.calls) == pytest.approx(2 / 3, rel=0.01)
    assert all(share == pytest.approx(1 / 6, rel=0.01) for share in counted.calls)


def test_warm_up_and_first_calls_are_not_counted() -> None:
    calls: list[float] = []

    def cold_at_first() -> None:
        calls.append(time.perf_counter())
        time.sleep(0.2 if len(calls) == 1 else 0.01)

    before = time.perf_counter_ns()
    counted = closed_loop([cold_at_first], 0.3)
    assert counted.start_ns - before > 0.2e9
    inside = [at for at in calls if counted.start_ns / 1e9 < at < counted.start_ns / 1e9 + 0.3]
    assert sum(counted.calls) == pytest.approx(len(inside), abs=1.01)
    assert len(calls) > len(inside) + 1


def test_each_stream_has_a_thread_and_all_stop() -> None:
    seen: set[int] = set()

    def call() -> None:
        seen.add(threading.get_ident())
        time.sleep(0.002)

    closed_loop([call] * 3, 0.1)
    assert len(seen) == 3 and threading.get_ident() in seen
    assert threading.active_count() == len(threading.enumerate())
    assert not [thread for thread in threading.enumerate() if thread.ident in seen - {threading.get_ident()}]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_stream_that_fails_ends_all(failing: int) -> None:
    calls = [0, 0]

    def stream(index: int) -> None:
        calls[index] += 1
        if index == failing and calls[index] == 3:
            raise RuntimeError("device lost")
        time.sleep(0.002)

    began = time.perf_counter()
    with pytest.raises(RuntimeError, match="device lost"):
        closed_loop([lambda: stream(0), lambda: stream(1)], 30)
    assert time.perf_counter() - began < 10
