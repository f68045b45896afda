"""Cold start: where the time goes between starting a process and its first outputs, in nanoseconds."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from cross_backend.measurement import Measurement

Made = TypeVar("Made")

PREFIX = "cold_start."
STEPS = {
    "process": "from starting the process to this package's first own line in it: interpreter and this package",
    "import": "importing the backend and the modules of its runtime",
    "load": "from asking the runtime to load to a session that is ready; compiling too, where the runtime compiles",
    "first_inference": "the first call; binding the inputs comes before and is not in it",
}
"""Step → what is in it, in their order."""


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


def anatomy(started_ns: int, opened: Mapping[str, Any], verified: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """Put the steps of one start together.

    Args:
        started_ns: when the process was started, by :func:`clock_ns`.
        opened: what the worker's ``open`` answered.
        verified: what the ``verify`` after it answered.

    Returns:
        One measurement a step, of one round with one value. Nothing where the worker had opened something before, and
        no first inference where the program had been called before.
    """
    if not opened["cold"]:
        return ()
    steps = {
        "process": opened["began_ns"] - started_ns,
        "import": opened["import_ns"],
        "load": opened["load_ns"],
        "first_inference": verified["first_ns"],
    }
    return tuple(
        Measurement(PREFIX + step, "ns", ((float(ns),),), (1,)) for step, ns in steps.items() if ns is not None
    )
