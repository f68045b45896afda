"""Benches: one artifact in one worker, opened, verified and timed; a worker that cannot open it does not stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Subject
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.contestant import Contestant
from cross_backend.comparison.opening import verify
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE
from cross_backend.comparison.warm_up import WARM_SERIES, WARM_UP_CALLS, until_steady, warm_up
from cross_backend.errors import ArtifactError, CrossBackendError, LoadError, RunError, UsageError
from cross_backend.exporting.export import Exported
from cross_backend.records import Outcome, Result
from cross_backend.registry import resolve
from cross_backend.tensors import TensorSpec

QUICK = Settings(num_runs=30, seconds=1.0, timeout_s=60.0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def test_an_open_worker_verifies_and_times(
    make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack
) -> None:
    artifact = make_artifact()
    bench, opened = open_bench(artifact.manifest_path, "null", QUICK, cache, stack)
    assert 0 < opened.load_s < 60 and opened.cold is True
    verified = bench.verify("fp16")
    comparison = verified.comparison
    assert (comparison.verdict, comparison.max_rel, comparison.tolerance) == (
        False,
        0.5,
        pytest.approx(4 * 2**13 * 6e-5),
    )
    assert verified.head == (0.0,) and (verified.first_ns or 0) > 0
    assert bench.execution(Subject(artifact.payload_path, "null", 1)) is None, "it cannot run elsewhere"
    estimate_ms, _ = warm_up(bench)
    assert 0 <= estimate_ms < 100
    assert len(bench.sample(7, 1, 10).ns) == 7
    assert bench.verify("fp32").first_ns is None, "it was called before"


def test_long_outputs_are_not_shown(make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack) -> None:
    artifact = make_artifact(outputs=(TensorSpec("y", "float32", (1, 5)),))
    bench, _ = open_bench(artifact.manifest_path, "null", QUICK, cache, stack)
    verified = bench.verify("fp32")
    contestant = Contestant(Exported("null", Outcome.OK), Result("w", "null", "Null", Outcome.OK))
    assert len(verified.head) == 5 and verify(contestant, bench, resolve("null"), cache).head == verified.head
    assert contestant.result.sample_output == ()
    assert verified.comparison.reason == "output 0 has shape [1, 5] instead of [1, 1]"


@pytest.mark.parametrize(
    ("settings", "most", "runs", "seconds"),
    [
        (Settings(launches=1), 1, 1000, 5.0),
        (Settings(), 10, 100, 0.5),
        (Settings(num_runs=20), 3, 7, 5 / 3),
        (Settings(num_runs=5), 1, 5, 5.0),
        (Settings(margin=0.01), 15, 67, 1 / 3),
        (Settings(launches=3), 3, 334, 5 / 3),
        (Settings(launches=20, num_runs=20, seconds=2), 20, 1, 0.1),
        (Settings(launches=2, margin=0.01, max_launches=10), 10, 100, 0.5),
        (Settings(launches=12, margin=0.01, max_launches=10), 12, 84, 5 / 12),
    ],
)
def test_the_box_is_shared_by_as_many_launches_as_there_may_be(
    settings: Settings, most: int, runs: int, seconds: float
) -> None:
    assert (settings.most_launches, settings.launch_runs) == (most, runs)
    assert settings.launch_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (LoadError, {"payload": b"not a null payload"}),
        (RunError, {"inputs": (TensorSpec("x", "float32", (2, 2)),)}),
        (UsageError, {"target": "nul"}),
    ],
    ids=["payload", "inputs", "target"],
)
def test_a_worker_that_cannot_open_does_not_stay(
    kind: type[CrossBackendError],
    changes: dict[str, object],
    make_artifact: Callable[..., Artifact],
    cache: Cache,
    stack: ExitStack,
) -> None:
    artifact = make_artifact(**changes)
    with ExitStack() as first:  # what tests share is started with the first worker
        HERE.start_bench("null", QUICK, cache, first)
    before = psutil.Process().children()
    with pytest.raises(kind):
        open_bench(artifact.manifest_path, artifact.target, QUICK, cache, stack)
    assert psutil.Process().children() == before, "it would take memory and time from the others"


def test_a_damaged_sample_is_said_to_be_damaged(
    make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack, tmp_path: Path
) -> None:
    artifact = make_artifact()
    assert artifact.sample_path is not None
    np.savez(artifact.sample_path, something=np.zeros(1))
    with pytest.raises(ArtifactError, match="damaged"):
        open_bench(artifact.manifest_path, "null", QUICK, cache, stack)


def durations(call: Callable[[int], float]) -> tuple[Callable[[int], list[int]], list[int]]:
    """Give what takes calls whose durations follow from their number, and the list of how many it was asked for."""
    asked: list[int] = []

    def take(count: int) -> list[int]:
        start = sum(asked)
        asked.append(count)
        return [int(call(number)) for number in range(start, start + count)]

    return take, asked


def test_a_steady_target_is_warm_after_the_first_series() -> None:
    take, asked = durations(lambda number: 5000 + number % 3)
    assert until_steady(take) == (pytest.approx(0.005, rel=0.01), None)
    assert asked == [WARM_SERIES]


def test_a_fast_target_that_is_never_steady_ends_after_a_bounded_number_of_calls_and_judgements() -> None:
    """It grew to a million calls in series of fifty, all judged anew each time: minutes on the processor."""
    take, asked = durations(lambda number: 2000 + 20 * number)
    began = time.process_time()
    estimate_ms, warning = until_steady(take)
    assert time.process_time() - began < 2.0
    assert sum(asked) == WARM_UP_CALLS and len(asked) == 9
    assert estimate_ms == pytest.approx((2000 + 20 * 0.75 * WARM_UP_CALLS) / 1e6, rel=0.01)
    assert warning == f"not steady after {WARM_UP_CALLS:,} calls, 1.7 s, of warm-up"


def test_a_slow_target_ends_after_two_seconds() -> None:
    take, asked = durations(lambda number: 20e6 + number * 1e6)
    _, warning = until_steady(lambda count: take(min(count, 25)))
    assert sum(asked) == 50 and warning == "not steady after 50 calls, 2.2 s, of warm-up"
    lame, _ = durations(lambda _: 3e9)
    assert until_steady(lambda _: lame(1)) == (3000.0, None), "too few calls to judge"


def test_a_warm_up_is_left_out_of_the_estimate() -> None:
    take, asked = durations(lambda number: 90_000 if number < 40 else 10_000 + number % 7)
    estimate_ms, warning = until_steady(take)
    assert estimate_ms == pytest.approx(0.01, rel=0.01) and warning is None
    assert sum(asked) == 2 * WARM_SERIES
