"""Clock: durations of steps, by a clock that all processes of a machine share."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

Made = TypeVar("Made")


def clock_ns() -> int:
    """Read the clock that this process and the one that started it share.

    ``perf_counter`` counts from the same instant in all processes of a machine: CLOCK_MONOTONIC on Linux,
    mach_absolute_time on macOS, QueryPerformanceCounter on Windows (system-wide since Python 3.10, bpo-37205). It
    ticks every microsecond or faster on all of them, unlike Windows' ``monotonic`` before Python 3.13 (16 ms).
    """
    return time.perf_counter_ns()


def timed(step: Callable[[], Made]) -> tuple[Made, int]:
    """Do a step; return what it made and the nanoseconds that it took."""
    began = clock_ns()
    made = step()
    return made, clock_ns() - began


def import_modules(names: Sequence[str]) -> None:
    """Import what a session will need; what fails here fails again when the session opens, where its error is told."""
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
