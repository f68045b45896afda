"""Power and energy: what the machine's own counters say while a target works; never an estimate.

Every figure is of a whole part of the machine (``covers`` says which), whoever uses it, and is not corrected for what
that part uses when idle.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Self

from cross_backend.errors import RunError, UnavailableError, one_line
from cross_backend.measure import gpu
from cross_backend.measure.sensors import SYS_CLASS, Battery, GpuProbe, Hwmon, PowerMetrics, Probe, Rapl

INTERVAL_S = 0.1
"""Between two readings; counters wrap around after minutes at the earliest."""


def find_probe(pid: int, sys_class: Path = SYS_CLASS) -> Probe:
    """Return the best probe for what a process does: its GPU's, else the processor's, else the machine's.

    Args:
        pid: a process that has begun its work, so that a GPU's driver knows it.
        sys_class: where Linux shows its devices.

    Raises:
        UnavailableError: there is none; the text says why for each kind.
    """
    opened, reasons = gpu.drivers()
    for driver in opened:
        try:
            return GpuProbe(driver, list(driver.memory_of(pid)))
        except Exception as error:
            reasons.append(one_line(error))
    for build in (
        lambda: Rapl(sys_class / "powercap"),
        lambda: Hwmon(sys_class / "hwmon"),
        lambda: Battery(sys_class / "power_supply"),
        PowerMetrics,
    ):
        try:
            return build()
        except UnavailableError as error:
            reasons.append(error.reason)
        except Exception as error:
            reasons.append(one_line(error))
    raise UnavailableError(f"not measurable here: {', '.join(reasons)}")


class Recorder:
    """Reads a probe every tenth of a second in a thread of its own, while its block runs."""

    def __init__(self, probe: Probe, interval_s: float = INTERVAL_S) -> None:
        self._probe, self._interval_s = probe, interval_s
        self._at_ns: list[int] = []
        self._values: list[float] = []
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._record, daemon=True)

    def __enter__(self) -> Self:
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._read()

    def joules(self, start_ns: int, end_ns: int) -> float:
        """Return the energy between two instants of ``perf_counter_ns`` inside the block, once it is over.

        A counter is interpolated linearly between its readings; power is integrated by the trapezoidal rule.

        Raises:
            RunError: the probe failed meanwhile, or was not read before and after.
        """
        if self._failure is not None:
            raise RunError(f"{self._probe.covers} could not be read: {one_line(self._failure)}") from self._failure
        if not self._at_ns[0] <= start_ns <= end_ns <= self._at_ns[-1]:
            raise RunError(f"{self._probe.covers} was not read from before the work to after it.")
        import numpy as np

        at_ns, values = np.array(self._at_ns, float), np.array(self._values)
        if not self._probe.counts_energy:
            areas = np.diff(at_ns) / 1e9 * (values[1:] + values[:-1]) / 2
            values = np.concatenate([[0.0], np.cumsum(areas)])
        before, after = np.interp([start_ns, end_ns], at_ns, values)
        return float(after - before)

    def _record(self) -> None:
        while self._failure is None and not self._stop.wait(self._interval_s):
            self._read()

    def _read(self) -> None:
        before = time.perf_counter_ns()
        try:
            value = self._probe.read()
        except Exception as error:  # told when a figure is asked for
            self._failure = self._failure or error
            return
        self._at_ns.append((before + time.perf_counter_ns()) // 2)
        self._values.append(value)
