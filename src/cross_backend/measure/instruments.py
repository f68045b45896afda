"""Instruments, the parent's side: what is measured of one target alone, beside its latency among the others.

Each is taken by itself: one that fails leaves its reason and the others go on; only a worker that dies ends them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cross_backend.worker.process import Worker
from cross_backend.errors import CrossBackendError, WorkerError, one_line, unknown_name
from cross_backend.machine import Machine
from cross_backend.measure import cold_start as cold
from cross_backend.measure import gpu, open_loop, power, throughput
from cross_backend.measure.sensors import SYS_CLASS
from cross_backend.measurement import Measurement
from cross_backend.records import Further

INSTRUMENTS: Mapping[str, str] = {
    "accuracy": "the workload's task metric on held-out samples",
    "energy": "joules per inference and watts, where the machine counts them",
    "memory": "peak, shared and retained memory of the process, and its memory on GPUs",
    "open_loop": "latency against offered rate, from when requests are due: 25, 50, 75 and 90 % of capacity",
    "throughput": "inferences per second in a closed loop, for one stream and for one a processor",
}
"""Name → what it gives. The cold start is taken when a worker is opened: see :func:`cold_start`."""
IDLE_S = 1.0
"""How long the machine's power is watched before the work."""


@dataclass
class _Pass:
    """One pass over the instruments of one open worker."""

    worker: Worker
    batch: int
    timeout_s: float
    seconds: float
    seed: int
    streams: Sequence[int]
    capacity_per_s: float | None
    task: tuple[str, Path] | None
    sys_class: Path
    measurements: list[Measurement] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def ask(self, op: str, working_s: float = 0.0, **arguments: Any) -> Any:
        """Ask the worker, which may take as long as ever beside the time for which it is to work."""
        return self.worker.call(op, self.timeout_s + 3 * working_s, **arguments)

    def attempt(self, metric: str, instrument: Callable[[], None]) -> None:
        """Do one thing; where it fails, its reason stands for the metric."""
        try:
            instrument()
        except WorkerError:
            raise
        except CrossBackendError as error:
            self.absent[metric] = str(error)
        except Exception as error:  # a sensor that goes away, a driver's own exceptions
            self.absent[metric] = one_line(error)

    def keep(self, metric: str, unit: str, values: Iterable[float]) -> None:
        """Keep one value a round."""
        self.measurements.append(Measurement(metric, unit, tuple((float(value),) for value in values)))


def cold_start(worker: Worker, opened: Mapping[str, Any], verified: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """Return where a worker's cold start went: ``cold_start.process|import|load|first_inference``, ns, one value each.

    Args:
        worker: that answered both.
        opened: its answer to ``open``.
        verified: its answer to the first ``verify`` after that.
    """
    return cold.anatomy(worker.started_ns, opened, verified)


def take(
    worker: Worker,
    names: Iterable[str],
    *,
    batch: int,
    timeout_s: float,
    seconds: float = 5.0,
    seed: int = 0,
    streams: Sequence[int] | None = None,
    capacity_per_s: float | None = None,
    task: tuple[str, Path] | None = None,
    sys_class: Path = SYS_CLASS,
) -> Further:
    """Take instruments of what a worker has open.

    Memory comes first, because the others need memory of their own; it closes the session, and the next opens it again.

    Args:
        worker: has an artifact open, and has been verified; no other works meanwhile.
        names: of :data:`INSTRUMENTS`.
        batch: inferences a call.
        timeout_s: longest answer of the worker, beside the time for which it is to work.
        seconds: wall time of each closed loop, and of each offered rate.
        seed: of the arrivals.
        streams: numbers of concurrent streams; 1 and the number of usable processors where None.
        capacity_per_s: calls a second of one stream, for the offered rates; measured where None.
        task: name of the workload's metric and the file with its samples; None where it has none.
        sys_class: where Linux shows its sensors.

    Raises:
        UsageError: an instrument that does not exist.
        WorkerError: the worker died.
    """
    wanted = set(names)
    for name in sorted(wanted - INSTRUMENTS.keys()):
        raise unknown_name("instrument", name, INSTRUMENTS)
    counts = sorted(set(streams or (1, Machine.here().usable_cpus)))
    state = _Pass(worker, batch, timeout_s, seconds, seed, counts, capacity_per_s, task, sys_class)
    for name, instrument in _ORDER.items():
        if name in wanted:
            instrument(state)
    return Further(tuple(state.measurements), state.absent, state.scores, state.notes)


def in_order(names: Iterable[str]) -> list[str]:
    """Return instruments in the order in which :func:`take` takes them; names that do not exist come last."""
    wanted, known = set(names), list(_ORDER)
    return sorted(wanted, key=lambda name: known.index(name) if name in _ORDER else len(known))


def _memory(state: _Pass) -> None:
    def device() -> None:
        state.keep("memory.device", "B", [gpu.memory_of(state.worker.pid)])

    state.attempt("memory.device", device)  # before the session is closed
    figures: dict[str, int | None] = {}
    for name in ("peak_rss", "pss", "retained"):
        metric = f"memory.{name}"
        if not figures:
            state.attempt(metric, lambda: figures.update(state.ask("memory")))
        value = figures.get(name)
        if value is not None:
            state.keep(metric, "B", [value])
        elif figures:
            state.absent[metric] = "not measurable here: this system does not tell it"


def _accuracy(state: _Pass) -> None:
    def score() -> None:
        if state.task is None:
            state.absent["accuracy"] = "the workload has no task"
            return
        metric, path = state.task
        state.scores[metric] = float(state.ask("score", task=str(path))["value"])

    state.attempt("accuracy", score)


def _closed_loop(state: _Pass, streams: int, seconds: float) -> throughput.Counted:
    windows = throughput.WINDOWS
    answer = state.ask("throughput", seconds, streams=streams, seconds=seconds, windows=windows)
    return throughput.Counted(**answer)


def _throughput(state: _Pass) -> None:
    def measure(streams: int) -> None:
        counted = _closed_loop(state, streams, state.seconds)
        rates = [calls / counted.window_ns * 1e9 for calls in counted.calls]
        if streams == 1 and state.capacity_per_s is None:
            state.capacity_per_s = sum(rates) / len(rates)
        state.keep(f"throughput.streams_{streams}", "1/s", [rate * state.batch for rate in rates])

    for streams in state.streams:
        state.attempt(f"throughput.streams_{streams}", functools.partial(measure, streams))


def _open_loop(state: _Pass) -> None:
    def serve(load: int) -> None:
        metric = f"open_loop.{load}"
        if not state.capacity_per_s:
            counted = _closed_loop(state, 1, state.seconds)
            state.capacity_per_s = sum(counted.calls) / (len(counted.calls) * counted.window_ns) * 1e9
        rate = state.capacity_per_s * load / 100
        if rate * state.seconds < open_loop.FEWEST_REQUESTS:
            state.absent[metric] = f"too slow: fewer than {open_loop.FEWEST_REQUESTS} requests in {state.seconds:g} s"
            return
        answer = state.ask("open_loop", state.seconds, rate_per_s=rate, seconds=state.seconds, seed=state.seed)
        if answer["saturated"]:
            served = sum(map(len, answer["ns"]))
            state.absent[metric] = (
                f"saturated: {rate:.4g} calls a second kept it busy {answer['busy']:.0%} of the time "
                f"({served} of {answer['offered']} served), so latency grows for as long as they come"
            )
        else:
            state.measurements.append(Measurement(metric, "ns", tuple(tuple(row) for row in answer["ns"])))

    for load in open_loop.LOADS:
        state.attempt(f"open_loop.{load}", functools.partial(serve, load))


def _energy(state: _Pass) -> None:
    def watch() -> None:
        probe = power.find_probe(state.worker.pid, state.sys_class)
        with power.Recorder(probe) as recorder:
            began_ns = time.perf_counter_ns()
            time.sleep(IDLE_S)
            ended_ns = time.perf_counter_ns()
            counted = _closed_loop(state, 1, state.seconds)
            time.sleep(2 * power.INTERVAL_S)
        starts = [counted.start_ns + i * counted.window_ns for i in range(len(counted.calls))]
        joules = [recorder.joules(start, start + counted.window_ns) for start in starts]
        inferences = [calls * state.batch for calls in counted.calls]
        state.keep("energy.per_inference", "J", [j / n for j, n in zip(joules, inferences, strict=True)])
        state.keep("power", "W", [j / counted.window_ns * 1e9 for j in joules])
        state.keep("power.idle", "W", [recorder.joules(began_ns, ended_ns) / (ended_ns - began_ns) * 1e9])
        state.notes["energy.per_inference"] = f"of the whole {probe.covers}, idle power included"
        state.notes["power"] = f"of the whole {probe.covers}"

    state.attempt("energy.per_inference", watch)


_ORDER: Mapping[str, Callable[[_Pass], None]] = {
    "memory": _memory,
    "accuracy": _accuracy,
    "throughput": _throughput,
    "open_loop": _open_loop,
    "energy": _energy,
}
assert _ORDER.keys() == INSTRUMENTS.keys()
