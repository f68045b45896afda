"""Trial: one target in a worker of its own: opened, verified, warmed up, timed."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.backend import Options
from cross_backend.cache import Cache
from cross_backend.errors import CrossBackendError
from cross_backend.records import Comparison
from cross_backend.registry import resolve
from cross_backend.verify import tolerance_of
from cross_backend.workers import Worker

CALIBRATION_CALLS = 50
CALIBRATION_S = 0.5
WARM_CALLS = 3
SAMPLE_HEAD = 4
"""Outputs of at most this many elements are shown beside the ranking."""


@dataclass(frozen=True)
class Settings:
    """How to measure."""

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


def open_worker(payload: Path, target: str, settings: Settings, cache: Cache, stack: ExitStack) -> tuple[Worker, float]:
    """Start a worker and open an artifact in it; give the worker and the seconds that loading took.

    Raises:
        LoadError, ArtifactError, WorkerError: it cannot be opened; the worker is gone.
    """
    worker = stack.enter_context(Worker(cache.log("run"), resolve(target).python))
    try:
        answer = worker.call("open", settings.timeout_s, manifest=str(payload), target=target, threads=settings.threads)
    except CrossBackendError:
        worker.kill()
        raise
    return worker, float(answer["load_s"])


def verify(worker: Worker, options: Options, settings: Settings) -> tuple[Comparison, tuple[float, ...]]:
    """Compare a worker's outputs on the sample with the reference; give the verdict and a small output's values."""
    answer = worker.call("verify", settings.timeout_s, tolerance=tolerance_of(options))
    head = tuple(answer["head"]) if len(answer["head"]) <= SAMPLE_HEAD else ()
    return Comparison.from_json(answer["comparison"]), head


def calibrate(worker: Worker, settings: Settings) -> float:
    """Warm up and give the median duration of a call in milliseconds."""
    answer = sample(worker, settings, CALIBRATION_CALLS, WARM_CALLS, CALIBRATION_S)
    return float(statistics.median(answer["ns"])) / 1e6


def sample(worker: Worker, settings: Settings, samples: int, warmup: int, seconds: float) -> dict[str, Any]:
    """Time a block of calls; see ``measure.latency``."""
    answer: dict[str, Any] = worker.call("measure", settings.timeout_s, samples=samples, warmup=warmup, seconds=seconds)
    return answer
