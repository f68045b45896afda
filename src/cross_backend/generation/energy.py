"""Energy of a sequence: joules by the machine's own counters, from reset to the last token; never an estimate."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from cross_backend.errors import CrossBackendError, one_line
from cross_backend.measure import power
from cross_backend.measure.sensors import SYS_CLASS

T = TypeVar("T")


class Meter:
    """Measures what the whole machine part uses, by all processes, while one of them generates."""

    def __init__(self, pid: int | None, sys_class: Path = SYS_CLASS) -> None:
        """Look for a counter.

        Args:
            pid: of the process; None where it is on another machine.
            sys_class: where Linux shows its sensors.
        """
        self._probe = None
        self.note = "it runs on another machine, whose counters are not read from here"
        """What the figures cover, or why there are none."""
        if pid is None:
            return
        try:
            self._probe = power.find_probe(pid, sys_class)
            self.note = f"of the whole {self._probe.covers}, idle power included"
        except CrossBackendError as error:
            self.note = one_line(error)

    def over(self, work: Callable[[], T]) -> tuple[T, float | None]:
        """Do work, and return what it returned and the joules meanwhile; None where nothing counts them."""
        if self._probe is None:
            return work(), None
        with power.Recorder(self._probe) as recorder:
            began_ns = time.perf_counter_ns()
            found = work()
            ended_ns = time.perf_counter_ns()
        try:
            return found, recorder.joules(began_ns, ended_ns)
        except CrossBackendError as error:
            self._probe, self.note = None, one_line(error)
            return found, None
