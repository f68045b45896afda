"""Latency: how many calls are timed, where timing stops, and what the instrument leaves as it was."""

from __future__ import annotations

import gc
import time

import pytest

from cross_backend.backend import CallElsewhere
from cross_backend.measure.latency import sample


class _Counted:
    def __init__(self, seconds: float = 0.0, fail_at: int | None = None) -> None:
        self.calls, self.seconds, self.fail_at = 0, seconds, fail_at
        self.collecting: list[bool] = []

    def __call__(self) -> None:
        self.calls += 1
        self.collecting.append(gc.isenabled())
        if self.calls == self.fail_at:
            raise RuntimeError("device lost")
        time.sleep(self.seconds)


class _Elsewhere(CallElsewhere):
    def __call__(self) -> tuple[()]:
        raise AssertionError("it would time the way there, too")

    def sample(self, calls: int, warm_up: int, seconds: float) -> list[int]:
        return [calls, warm_up, int(seconds)]

    def timed(self) -> tuple[tuple[()], int]:
        return (), 7


def test_what_runs_elsewhere_times_itself() -> None:
    taken = sample(_Elsewhere(), samples=50, warmup=3, seconds=60)
    assert (taken.ns, taken.involuntary_switches) == ([50, 3, 60], 0)


def test_times_as_many_calls_as_asked_after_the_warm_up() -> None:
    run = _Counted()
    taken = sample(run, samples=50, warmup=3, seconds=60)
    assert (len(taken.ns), run.calls) == (50, 53)
    assert all(isinstance(ns, int) and ns >= 0 for ns in taken.ns)
    assert taken.involuntary_switches >= 0


def test_a_sample_is_the_duration_of_its_call() -> None:
    taken = sample(_Counted(0.02), samples=3, warmup=0, seconds=60)
    assert min(taken.ns) >= 20_000_000


@pytest.mark.parametrize("warmup", [0, 2])
def test_the_time_box_ends_it_but_one_call_is_always_timed(warmup: int) -> None:
    run = _Counted(0.01)
    taken = sample(run, samples=1000, warmup=warmup, seconds=0.001)
    assert len(taken.ns) == 1
    assert run.calls == 1 + min(warmup, 1), "the warm-up is inside the box"


def test_the_box_is_not_passed_by_more_than_a_call() -> None:
    run = _Counted(0.02)
    taken = sample(run, samples=1000, warmup=0, seconds=0.1)
    assert 1 <= len(taken.ns) <= 6


def test_nothing_is_collected_while_it_times() -> None:
    run = _Counted()
    sample(run, samples=5, warmup=0, seconds=60)
    assert run.collecting == [False] * 5
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        sample(_Counted(), samples=2, warmup=0, seconds=60)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_failing_call_ends_it_and_leaves_the_collector_on() -> None:
    with pytest.raises(RuntimeError, match="device lost"):
        sample(_Counted(fail_at=3), samples=10, warmup=0, seconds=60)
    assert gc.isenabled()
