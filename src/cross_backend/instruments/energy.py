"""Energy: joules per inference and watts while one stream calls in a closed loop, from the hardware's own counters."""

from __future__ import annotations

import time

from cross_backend.instruments.instrument import Instrument, Metrics, Pass
from cross_backend.instruments.throughput import ClosedLoop
from cross_backend.measure import power

IDLE_S = 1.0
"""How long the machine's power is watched before the work."""


def _take(state: Pass) -> None:
    with state.attempt("energy.per_inference"):
        probe = power.find_probe(state.pid, state.sys_class)
        with power.Recorder(probe) as recorder:
            began_ns = time.perf_counter_ns()
            time.sleep(IDLE_S)
            ended_ns = time.perf_counter_ns()
            counted = state.bench.take(ClosedLoop(1, state.seconds))
            time.sleep(2 * power.INTERVAL_S)
        starts = [counted.start_ns + i * counted.window_ns for i in range(len(counted.calls))]
        joules = [recorder.joules(start, start + counted.window_ns) for start in starts]
        inferences = [calls * state.batch for calls in counted.calls]
        state.keep("energy.per_inference", "J", [j / n for j, n in zip(joules, inferences, strict=True)])
        state.keep("power", "W", [j / counted.window_ns * 1e9 for j in joules])
        state.keep("power.idle", "W", [recorder.joules(began_ns, ended_ns) / (ended_ns - began_ns) * 1e9])
        state.notes["energy.per_inference"] = f"of the whole {probe.covers}, idle power included"
        state.notes["power"] = f"of the whole {probe.covers}"


ENERGY = Instrument(
    "joules per inference and watts, where the machine counts them",
    (0.1, 8),
    _take,
    (Metrics("energy", "Energy"), Metrics("power", "Power")),
)
