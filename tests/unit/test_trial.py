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
from cross_backend.tensors import TensorSpec
from cross_backend.trial import Settings, calibrate, open_worker, sample, verify

QUICK = Settings(num_runs=30, seconds=1.0, timeout_s=60.0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def test_an_open_worker_verifies_and_times(
    make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack
) -> None:
    worker, load_s = open_worker(make_artifact().manifest_path, "null", QUICK, cache, stack)
    assert 0 < load_s < 60
    comparison, head = verify(worker, {"precision": "fp16"}, QUICK)
    assert (comparison.verdict, comparison.max_rel, comparison.tolerance) == (False, 1.0, 2e-2)
    assert head == (0.0,)
    assert calibrate(worker, QUICK) >= 0
    assert len(sample(worker, QUICK, samples=7, warmup=1, seconds=10)["ns"]) == 7


def test_long_outputs_are_not_shown(make_artifact: Callable[..., Artifact], cache: Cache, stack: ExitStack) -> None:
    artifact = make_artifact(outputs=(TensorSpec("y", "float32", (1, 5)),))
    worker, _ = open_worker(artifact.manifest_path, "null", QUICK, cache, stack)
    comparison, head = verify(worker, {}, QUICK)
    assert head == ()
    assert comparison.reason == "output 0 has shape [1, 5] instead of [1, 1]"


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
