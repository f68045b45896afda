"""Latency: raw samples of one bound call, in nanoseconds."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cross_backend.backend import CallElsewhere


@dataclass(frozen=True)
class Samples:
    """What one block of timed calls gave."""

    ns: list[int]
    """Durations in order, nanoseconds."""
    involuntary_switches: int
    """How often the kernel took the processor away from this process meanwhile; 0 where the system does not say."""


def sample(run: Callable[[], Any], samples: int, warmup: int, seconds: float) -> Samples:
    """Call ``warmup`` times, then time up to ``samples`` calls one by one.

    Nothing is allocated, logged or collected between two clock readings. What runs outside of this process is timed
    there, and the way to it is no part of a duration.

    Args:
        run: a bound call that returns when its outputs are there.
        samples: most calls to time; at least one is timed.
        warmup: calls before, not timed.
        seconds: stop after the call that passes this wall time, warm-up included.
    """
    if isinstance(run, CallElsewhere):
        return Samples(run.sample(samples, warmup, seconds), 0)
    clock = time.perf_counter_ns
    deadline = clock() + int(seconds * 1e9)
    for _ in range(warmup):
        run()
        if clock() > deadline:
            break
    ns = [0] * samples
    taken = 0
    collecting = gc.isenabled()
    gc.collect(0)
    gc.disable()
    switches = _involuntary_switches()
    try:
        for taken in range(samples):
            before = clock()
            run()
            after = clock()
            ns[taken] = after - before
            if after > deadline:
                break
    finally:
        if collecting:
            gc.enable()
    return Samples(ns[: taken + 1], _involuntary_switches() - switches)


def _involuntary_switches() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
