"""Trial: one artifact in one worker, opened, verified and timed; a worker that cannot open it does not stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pytest

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, CrossBackendError, LoadError, RunError, UsageError
from cross_backend.registry import resolve
from cross_backend.tensors import TensorSpec
from cross_backend.trial import Settings, execution, open_worker, sample, verify, warm_up

QUICK = Settings(num_runs=30, seconds=1.0, timeout_s=60.0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def test_an_open_worker_verifies_and_times(
    make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack
) -> None:
    artifact = make_artifact()
    worker, opened = open_worker(artifact.manifest_path, "null", QUICK, cache, stack)
    assert 0 < opened["load_s"] < 60 and opened["cold"] is True
    verified = verify(worker, {"precision": "fp16"}, QUICK)
    comparison = verified.comparison
    assert (comparison.verdict, comparison.max_rel, comparison.tolerance) == (False, 1.0, 2e-2)
    assert verified.head == (0.0,) and verified.answer["first_ns"] > 0
    assert execution(worker, artifact, resolve("null"), QUICK) is None, "it cannot run elsewhere"
    estimate_ms, _ = warm_up(worker, QUICK)
    assert 0 <= estimate_ms < 100
    assert len(sample(worker, QUICK, samples=7, warmup=1, seconds=10)["ns"]) == 7
    assert verify(worker, {}, QUICK).answer["first_ns"] is None, "it was called before"


def test_long_outputs_are_not_shown(make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack) -> None:
    artifact = make_artifact(outputs=(TensorSpec("y", "float32", (1, 5)),))
    worker, _ = open_worker(artifact.manifest_path, "null", QUICK, cache, stack)
    verified = verify(worker, {}, QUICK)
    assert verified.head == ()
    assert verified.comparison.reason == "output 0 has shape [1, 5] instead of [1, 1]"


@pytest.mark.parametrize(
    ("settings", "most", "runs", "seconds"),
    [
        (Settings(), 1, 1000, 5.0),
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
    before, artifact = psutil.Process().children(), make_artifact(**changes)
    with pytest.raises(kind):
        open_worker(artifact.manifest_path, artifact.target, QUICK, cache, stack)
    assert psutil.Process().children() == before, "it would take memory and time from the others"


def test_a_damaged_sample_is_said_to_be_damaged(
    make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack, tmp_path: Path
) -> None:
    artifact = make_artifact()
    assert artifact.sample_path is not None
    np.savez(artifact.sample_path, something=np.zeros(1))
    with pytest.raises(ArtifactError, match="damaged"):
        open_worker(artifact.manifest_path, "null", QUICK, cache, stack)
