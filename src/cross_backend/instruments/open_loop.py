"""Open loop: latency of requests that arrive when they will, whether the last one is answered or not.

A closed loop waits for an answer before it asks again, so a stall delays the questions that would have met it and is
seen once: *coordinated omission* (G. Tene, "How NOT to Measure Latency"; wrk2). Here arrivals are fixed beforehand,
and a latency counts from the instant at which the request was due, not from when the server came to it.
"""

from __future__ import annotations

import functools
import gc
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.instruments.instrument import Instrument, Metrics, Pass
from cross_backend.instruments.throughput import ClosedLoop
from cross_backend.measurement import Measurement

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact

LOADS = (25, 50, 75, 90)
"""Offered rates, % of capacity."""
FEWEST_REQUESTS = 5
"""A rate that brings fewer in the time that there is shows nothing, and would take as long as a call is slow."""
MAX_REQUESTS = 100_000
"""Most requests of a run; a faster rate is offered for a shorter time."""
WINDOWS = 10
"""Parts of a run; requests in one of them wait for each other and are not independent."""
_SPIN_NS = 1_000_000
"""A sleeping thread wakes up to about this much too late; so the last stretch before an arrival is spent spinning."""
_GRACE = 2.0
"""A run ends when it takes this many times as long as its arrivals."""


@dataclass(frozen=True)
class Served:
    """What became of the requests."""

    ns: list[int]
    """From the instant at which a request was due to its outputs, in order; nanoseconds."""
    offered: int
    """Requests in all; those beyond ``ns`` were not served before time was up."""
    busy: float
    """Offered rate × mean duration of a call: the share of time for which the server works. Where it is 1 or more the
    queue, and with it latency, grows for as long as the load lasts."""

    @property
    def saturated(self) -> bool:
        """Whether the server could not keep up, so that no latency describes it."""
        return len(self.ns) < self.offered or self.busy >= 1.0


@dataclass(frozen=True)
class OpenLoop(Reading[Served]):
    """Requests that arrive when they will."""

    rate_per_s: float
    seconds: float
    seed: int

    @property
    def working_s(self) -> float:
        """The length of the run."""
        return self.seconds

    @functools.cached_property
    def arrivals(self) -> list[int]:
        """When the requests are due; the same for who asks and for who serves."""
        return arrivals_ns(self.rate_per_s, self.seconds, self.seed)

    def read(self, artifact: OpenArtifact) -> Served:
        """Return the latencies."""
        return serve(artifact.run, self.arrivals, self.rate_per_s)


def arrivals_ns(rate_per_s: float, seconds: float, seed: int) -> list[int]:
    """Draw instants of a Poisson process: gaps are independent and exponential, as those of many unrelated clients.

    Args:
        rate_per_s: mean arrivals a second.
        seconds: length of the run, which a very high rate shortens; at least one request arrives.
        seed: of the gaps.

    Returns:
        Nanoseconds from the beginning, ascending.
    """
    draw = random.Random(seed)  # noqa: S311  no secret: the gaps between requests
    instants: list[int] = []
    instant_s = draw.expovariate(rate_per_s)
    while not instants or (instant_s < seconds and len(instants) < MAX_REQUESTS):
        instants.append(int(instant_s * 1e9))
        instant_s += draw.expovariate(rate_per_s)
    return instants


def serve(run: Callable[[], Any], arrivals: Sequence[int], rate_per_s: float) -> Served:
    """Serve requests one after the other, each when it is due or as soon as those before it are done.

    Args:
        run: a bound call that returns when its outputs are there.
        arrivals: see :func:`arrivals_ns`.
        rate_per_s: at which they were drawn.
    """
    clock, sleep = time.perf_counter_ns, time.sleep
    ns, durations = [0] * len(arrivals), [0] * len(arrivals)
    served = 0
    collecting = gc.isenabled()
    gc.collect(0)
    gc.disable()
    try:
        run()
        begin = clock()
        limit = begin + int(_GRACE * arrivals[-1]) + 1_000_000_000
        for index, arrival in enumerate(arrivals):
            due = begin + arrival
            now = clock()
            while now < due:
                if due - now > 2 * _SPIN_NS:
                    sleep((due - now - _SPIN_NS) / 1e9)
                now = clock()
            run()
            after = clock()
            ns[index], durations[index] = after - due, after - now
            served = index + 1
            if after > limit:
                break
    finally:
        if collecting:
            gc.enable()
    return Served(ns[:served], len(arrivals), rate_per_s * statistics.fmean(durations[:served]) / 1e9)


def by_window(ns: Sequence[int], arrivals: Sequence[int], windows: int = WINDOWS) -> list[list[int]]:
    """Divide latencies by when their requests were due, into windows of equal duration; empty ones are left out."""
    width = arrivals[-1] // windows + 1
    rows: list[list[int]] = [[] for _ in range(windows)]
    for latency, arrival in zip(ns, arrivals, strict=False):
        rows[arrival // width].append(latency)
    return [row for row in rows if row]


def _take(state: Pass) -> None:
    for load in LOADS:
        with state.attempt(f"open_loop.{load}"):
            _offer(state, load, f"open_loop.{load}")


def _offer(state: Pass, load: int, metric: str) -> None:
    """Offer a share of the capacity, in percent."""
    if not state.capacity_per_s:
        counted = state.bench.take(ClosedLoop(1, state.seconds))
        state.capacity_per_s = sum(counted.calls) / (len(counted.calls) * counted.window_ns) * 1e9
    rate = state.capacity_per_s * load / 100
    if rate * state.seconds < FEWEST_REQUESTS:
        state.absent[metric] = f"too slow: fewer than {FEWEST_REQUESTS} requests in {state.seconds:g} s"
        return
    asked = OpenLoop(rate, state.seconds, state.seed)
    answer = state.bench.take(asked)
    if answer.saturated:
        state.absent[metric] = (
            f"saturated: {rate:.4g} calls a second kept it busy {answer.busy:.0%} of the time "
            f"({len(answer.ns)} of {answer.offered} served), so latency grows for as long as they come"
        )
    else:
        state.measurements.append(Measurement(metric, "ns", tuple(map(tuple, by_window(answer.ns, asked.arrivals)))))


OPEN_LOOP = Instrument(
    f"latency against offered rate, from when requests are due: {', '.join(map(str, LOADS[:-1]))} and {LOADS[-1]} % of "
    "capacity",
    (20, 40),
    _take,
    (Metrics("open_loop", "Open-loop latency: median, by offered rate in % of capacity"),),
)
