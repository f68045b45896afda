"""Captures: workloads that were captured into the cache, and are found there again."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path

from cross_backend.cache import Cache, key_of
from cross_backend.errors import ArtifactError
from cross_backend.program.captured import Captured
from cross_backend.program.writing import write_capture
from cross_backend.worker.question import Answering, Question
from cross_backend.workloads import Source, find_workload

KIND = "captures"


def capture_of(program: str, cache: Cache) -> Path | None:
    """Return the folder of a captured program.

    Args:
        program: its digest.
        cache: where captures lie.
    """
    for record in sorted((cache.root / KIND).glob("*/capture.json")):
        try:
            if json.loads(record.read_text())["digest"] == program:
                cache.use(record.parent)
                return record.parent
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None


@dataclass(frozen=True)
class Capture(Question[tuple[Path, bool]]):
    """Build and capture a workload into the cache; returns the folder, and whether the module was training."""

    model: str
    weights: str | None
    batch: int | None
    cache: Path
    own: tuple[Path, ...] = ()
    calibration: Path | None = None
    task: str | None = None

    def answer(self, _process: Answering) -> tuple[Path, bool]:
        """Return the capture's folder, and whether the module was in training mode."""
        captured = capture_workload(
            self.model, self.weights, Cache(self.cache), self.batch, self.own, self.calibration, self.task
        )
        return captured.folder, captured.was_training


def capture_workload(
    model: str,
    weights: str | None,
    cache: Cache,
    batch: int | None = None,
    own: tuple[Path, ...] = (),
    calibration: Path | None = None,
    task: str | None = None,
) -> Captured:
    """Build and capture a workload at a batch size (as it comes where None), or find it in the cache.

    Raises:
        UsageError, CaptureError, UnavailableError: it cannot be found, built or captured.
    """
    source = find_workload(model, weights, batch, own, calibration, task)
    found = find_capture(source, cache)
    if found is not None:
        return found
    with cache.scratch() as folder:
        workload = source.build()
        captured = write_capture(workload, folder)
        stored = Captured.read(cache.publish(folder, KIND, _capture_key(source) or captured.cache_key))
        return replace(stored, was_training=workload.was_training)


def find_capture(source: Source, cache: Cache) -> Captured | None:
    """Return the cached capture of a source whose identity is known without building it; imports no torch."""
    key = _capture_key(source)
    folder = cache.find(KIND, key) if key else None
    if folder is None:
        return None
    try:
        captured = Captured.read(folder)
        captured.check()
        return captured
    except ArtifactError:
        cache.drop(KIND, key or "")
        return None


def _capture_key(source: Source) -> str | None:
    if source.identity is None:
        return None
    return key_of({"workload": source.identity, "name": source.name, "source": _source_digest()})


@functools.cache
def _source_digest() -> str:
    """Digest our own code that captures depend on."""
    root = Path(__file__).parents[1]
    beside = ("structure.py", "tensors.py", "workloads/batching.py")
    files = [*sorted(root.glob("program/*.py")), *sorted(root.glob("verify/*.py")), *(root / name for name in beside)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
