"""Throughput: calls per second in a closed loop, in which each stream calls again as soon as it has its outputs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.instruments.instrument import Instrument, Metrics, Pass

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact

WARM_SHARE = 0.1
"""Share of the counted time for which the streams run before it begins."""
WINDOWS = 10
"""Parts of the counted time; the rate of each is one observation."""


@dataclass(frozen=True)
class Counted:
    """What a closed loop did."""

    start_ns: int
    """When counting began, by ``perf_counter_ns``, which all processes of a machine share."""
    window_ns: int
    """Duration of a window."""
    calls: list[float]
    """Calls of all streams in each window. A call across an edge counts in both windows by its share of time, so that
    long calls are neither lost nor counted twice."""


@dataclass(frozen=True)
class ClosedLoop(Reading[Counted]):
    """Calls of several streams, each in a session of its own."""

    streams: int
    seconds: float
    windows: int = WINDOWS

    @property
    def working_s(self) -> float:
        """The counted time."""
        return self.seconds

    def read(self, artifact: OpenArtifact) -> Counted:
        """Return the calls of each window."""
        runs = [artifact.run]
        with contextlib.ExitStack() as stack:
            for _ in range(self.streams - 1):
                session = artifact.load()
                stack.push(session)
                runs.append(session.bind(artifact.sample["input"]))
            return closed_loop(runs, self.seconds, self.windows)


def closed_loop(runs: Sequence[Callable[[], Any]], seconds: float, windows: int = WINDOWS) -> Counted:
    """Call every bound call repeatedly in a thread of its own, all at the same time.

    Each is called once before. Then all start together, and after a warm-up their calls count from one instant to
    another that are common to all; a stream goes on until that end is behind it, so that none ever runs alone.

    Args:
        runs: one bound call a stream, each of a session of its own: not every runtime may be entered twice.
        seconds: counted wall time.
        windows: parts that it is divided into.

    Raises:
        Exception: the first that a call raised; all streams have ended then.
    """
    for run in runs:
        run()
    window_ns = max(1, int(seconds * 1e9 / windows))
    start_ns: list[int] = []
    stop = threading.Event()
    failures: list[Exception] = []
    calls = [[0.0] * windows for _ in runs]
    together = threading.Barrier(
        len(runs), lambda: start_ns.append(time.perf_counter_ns() + int(seconds * WARM_SHARE * 1e9))
    )

    def stream(run: Callable[[], Any], counts: list[float]) -> None:
        try:
            together.wait()
            _count(run, counts, start_ns[0], window_ns, stop)
        except Exception as error:
            failures.append(error)
            stop.set()

    threads = [
        threading.Thread(target=stream, args=pair, daemon=True) for pair in zip(runs[1:], calls[1:], strict=True)
    ]
    for thread in threads:
        thread.start()
    stream(runs[0], calls[0])  # some runtimes run faster, or only, in the thread that opened the session
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return Counted(start_ns[0], window_ns, [sum(column) for column in zip(*calls, strict=True)])


def _count(run: Callable[[], Any], counts: list[float], start_ns: int, window_ns: int, stop: threading.Event) -> None:
    """Call until the last window is over."""
    clock, ended = time.perf_counter_ns, stop.is_set
    index, edge, last = -1, start_ns, len(counts)
    before = clock()
    inside = 0
    while index < last and not ended():
        run()
        after = clock()
        if after < edge:
            inside += 1
        else:
            if index >= 0:
                counts[index] += inside
            inside = 0
            _share(counts, before - start_ns, after - start_ns, window_ns)
            index = (after - start_ns) // window_ns
            edge = start_ns + (index + 1) * window_ns
        before = after


def _share(counts: list[float], before_ns: int, after_ns: int, window_ns: int) -> None:
    """Add to every window that a call touches its share of the call; times are from the start of the first window."""
    first = max(0, before_ns // window_ns)
    for index in range(first, min(len(counts) - 1, after_ns // window_ns) + 1):
        overlap = min(after_ns, (index + 1) * window_ns) - max(before_ns, index * window_ns)
        counts[index] += overlap / max(after_ns - before_ns, 1)


def _take(state: Pass) -> None:
    for streams in state.streams:
        metric = f"throughput.streams_{streams}"
        with state.attempt(metric):
            counted = state.bench.take(ClosedLoop(streams, state.seconds))
            rates = [calls / counted.window_ns * 1e9 for calls in counted.calls]
            if streams == 1 and state.capacity_per_s is None:
                state.capacity_per_s = sum(rates) / len(rates)
            state.keep(metric, "1/s", [rate * state.batch for rate in rates])


THROUGHPUT = Instrument(
    "inferences per second in a closed loop, for one stream and for one a processor",
    (2, 20),
    _take,
    (Metrics("throughput", "Throughput"),),
)
