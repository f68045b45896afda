"""Trial: one target in a worker of its own: opened, verified, warmed up, timed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.artifact import Artifact
from cross_backend.backend import Options
from cross_backend.worker.process import Worker
from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError
from cross_backend.machine import Machine
from cross_backend.measure.paired import MIN_ROUNDS
from cross_backend.measure.steady import FEWEST_CALLS, steady_from
from cross_backend.records import Comparison, Execution
from cross_backend.registry import Resolved, resolve
from cross_backend.verify.compare import precision_of

WARM_SERIES = 50
"""Calls of the first warm-up series; each further one doubles all calls, so that few judgements are made."""
WARM_SERIES_S = 0.5
"""Most seconds of one warm-up series."""
WARM_UP_S = 2.0
"""Most seconds of warm-up; a target that is not steady by then, after enough calls to judge, carries a warning."""
WARM_AGAIN_S = 0.5
"""The same of a further launch where as many launches as it takes share a time box. Where it is not steady by then, the
slow calls are not among those that count (``measure.paired.CALM``); the first launch has told that it takes long."""
WARM_UP_CALLS = 12_800
"""Most calls of warm-up: two seconds of a microsecond each would be millions."""
MOST_JUDGED = 300
"""Longest series that is judged call by call; longer ones by the medians of so many groups of neighbours."""
WARM_CALLS = 3
ROUNDS = 30
"""Rounds of one launch, of which a slow target takes part in six at least. Under load a round's ratio scatters by a
quarter: with ten rounds a launch, 14 launches did not find 5 %; with thirty they found 3 % (docs/benchmarks.md)."""
SAMPLE_HEAD = 4
"""Outputs of at most this many elements are shown beside the ranking."""


MOST_DECIDING = 10
"""Launches that share runs and time box where nobody says how many there are. Where processes differ by 1 to 2 %, four
to six find 8 %; what is far apart is started once or twice."""
BOX_S = 60.0
"""Time box of one model's launches, where nobody says how many there are."""
_SPREAD = sorted(range(ROUNDS), key=lambda turn: f"{turn:b}".zfill(ROUNDS.bit_length())[::-1])
"""Turns in an order of which every beginning is spread over the whole launch: by reversed bits (van der Corput)."""


@dataclass(frozen=True)
class Settings:
    """How to measure.

    With neither ``launches`` nor ``margin``, launching goes on until every place is decided (:data:`MOST_DECIDING`
    times and ``box_s`` at most), and what is far apart from its neighbours is not started again.
    """

    num_runs: int = 1000
    """Most timed calls of each target."""
    seconds: float = 5.0
    """Most seconds of timed calls of each target; at least six calls are timed all the same."""
    threads: int = 1
    """CPU threads of each target that does not name its own."""
    timeout_s: float = 600.0
    """Longest answer of a worker: opening, one call, one visit."""
    seed: int = 0
    """Of the visiting order."""
    launches: int | None = None
    """How often every target is started anew; with a margin at least (one where None)."""
    max_launches: int = 15
    """How often at most, where ``margin`` asks for more precision than the first launches gave."""
    margin: float | None = None
    """Half-width of the ratios to the fastest at which launching stops (0.01 is 1 %); None: ``launches``, no more."""
    min_on_device: float = 0.9
    """Share of the work that must run on the device that was asked for; below it there is no rank."""
    memory_limit_bytes: int | None = None
    """Memory that a worker may use; it is stopped above."""
    found_from: float = 0.08
    """With neither launches nor a margin: relative difference that would surely be found between targets that are not
    far apart; then their places are decided."""

    box_s: float = BOX_S
    """With neither: wall time of all launches together from which on no further one begins."""

    @property
    def deciding(self) -> bool:
        """Whether launching goes on until every place is decided."""
        return self.launches is None and self.margin is None

    @property
    def most_launches(self) -> int:
        """How many launches share the time box."""
        if self.deciding:
            return max(1, min(MOST_DECIDING, self.num_runs // MIN_ROUNDS))
        fewest = self.launches or 1
        return fewest if self.margin is None else max(fewest, self.max_launches)

    @property
    def launch_s(self) -> float:
        """Most seconds of timed calls of each target in one launch."""
        return self.seconds / self.most_launches

    @property
    def launch_runs(self) -> int:
        """Most timed calls of each target in one launch."""
        return math.ceil(self.num_runs / self.most_launches)


def plan_visits(estimate_ms: float, settings: Settings) -> list[int]:
    """Return the timed calls of each round: those of one launch, fewer where the time box is too short for them.

    Slow targets do not take part in every round. Those of two targets are nested, so that the one that takes part in
    fewer shares all of its rounds with the other.
    """
    affordable = int(settings.launch_s * 1000 / max(estimate_ms, 1e-6))
    runs = min(settings.launch_runs, max(affordable, MIN_ROUNDS))
    visits = [runs // ROUNDS] * ROUNDS
    for turn in _SPREAD[: runs % ROUNDS]:
        visits[turn] += 1
    return visits


def too_few_processors(resolved: Resolved, threads: int, machine: Machine) -> str | None:
    """Return why a target with so many threads would tell nothing here; None where it may use as many processors."""
    wanted = int(resolved.options.get("threads") or threads)
    if wanted <= machine.usable_cpus:
        return None
    return f"{wanted} threads are asked for; this process may use {machine.usable_cpus} processor(s)"


@dataclass(frozen=True)
class Verified:
    """What the first call of an open target gave."""

    comparison: Comparison
    head: tuple[float, ...]
    """A small output's values; empty for others."""
    answer: dict[str, Any]
    """All that the worker said, for the cold start."""


def open_worker(
    payload: Path, target: str, settings: Settings, cache: Cache, stack: ExitStack
) -> tuple[Worker, dict[str, Any]]:
    """Start a worker and open an artifact in it; return the worker and what it said of the cold start.

    Raises:
        LoadError, ArtifactError, WorkerError: it cannot be opened; the worker is gone.
    """
    worker = start_worker(target, settings, cache, stack)
    return worker, open_in(worker, payload, target, settings)


def start_worker(target: str, settings: Settings, cache: Cache, stack: ExitStack) -> Worker:
    """Start a worker that runs a target; the stack ends it.

    Raises:
        WorkerError: the system starts no further process.
    """
    return stack.enter_context(
        Worker(cache.log("run"), resolve(target).python, memory_limit_bytes=settings.memory_limit_bytes)
    )


def open_in(worker: Worker, payload: Path, target: str, settings: Settings) -> dict[str, Any]:
    """Open an artifact in a worker; return what it said of the cold start.

    Raises:
        LoadError, ArtifactError, WorkerError: it cannot be opened; the worker is gone.
    """
    try:
        answer: dict[str, Any] = worker.call(
            "open", settings.timeout_s, manifest=str(payload), target=target, threads=settings.threads
        )
    except CrossBackendError:
        worker.kill()
        raise
    return answer


def verify(worker: Worker, options: Options, settings: Settings) -> Verified:
    """Compare a worker's outputs on the sample with the reference."""
    answer = worker.call("verify", settings.timeout_s, precision=precision_of(options))
    head = tuple(answer["head"]) if len(answer["head"]) <= SAMPLE_HEAD else ()
    return Verified(Comparison.from_json(answer["comparison"]), head, answer)


def execution(worker: Worker, artifact: Artifact, resolved: Resolved, settings: Settings) -> Execution | None:
    """Ask where an artifact really runs."""
    answer = worker.call(
        "execution",
        settings.timeout_s,
        manifest=str(artifact.payload_path),
        target=str(resolved.target),
        threads=settings.threads,
    )
    return Execution.from_json(answer["execution"]) if answer["execution"] else None


def warm_up(worker: Worker, settings: Settings, most_s: float = WARM_UP_S) -> tuple[float, str | None]:
    """Call until the durations are steady; return their median in milliseconds, and a warning where they never were."""
    return until_steady(lambda count: list(sample(worker, settings, count, 0, WARM_SERIES_S)["ns"]), most_s)


def until_steady(take: Callable[[int], list[int]], most_s: float = WARM_UP_S) -> tuple[float, str | None]:
    """Do the same, of durations in nanoseconds; ``take`` gives so many or fewer."""
    calls = take(WARM_SERIES)
    while (steady := _steady(calls)) is None and sum(calls) < most_s * 1e9 and len(calls) < WARM_UP_CALLS:
        calls += take(len(calls))
    if steady is not None:
        return float(statistics.median(calls[steady:])) / 1e6, None
    told = None
    if len(calls) >= FEWEST_CALLS:
        told = f"not steady after {len(calls):,} calls, {sum(calls) / 1e9:.2g} s, of warm-up"
    return float(statistics.median(calls[len(calls) // 2 :])) / 1e6, told


def _steady(calls: Sequence[int]) -> int | None:
    """Return the index of the first steady call; the work does not grow with a long series."""
    size = math.ceil(len(calls) / MOST_JUDGED)
    skipped = len(calls) % size
    groups = [statistics.median(calls[i : i + size]) for i in range(skipped, len(calls), size)] if size > 1 else calls
    found = steady_from(groups)
    return skipped + found * size if found else found


def sample(worker: Worker, settings: Settings, samples: int, warmup: int, seconds: float) -> dict[str, Any]:
    """Time a block of calls; see ``measure.latency``."""
    answer: dict[str, Any] = worker.call("measure", settings.timeout_s, samples=samples, warmup=warmup, seconds=seconds)
    return answer
