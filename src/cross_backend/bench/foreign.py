"""Foreign files: what is asked of a worker that has the packages to read them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cross_backend.registry import resolve
from cross_backend.tensors import TensorSpec
from cross_backend.worker.question import Answering, Question


@dataclass(frozen=True)
class Described:
    """A payload that no manifest describes."""

    target: str
    """That runs it."""
    inputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class Describe(Question[Described]):
    """What a payload takes, and which target runs it."""

    payload: Path
    target: str
    """That reads it."""

    def answer(self, _process: Answering) -> Described:
        """Return what the file says."""
        artifact = resolve(self.target).backend.describe(self.payload)
        return Described(artifact.target, artifact.inputs)


@dataclass(frozen=True)
class Unbundle(Question[tuple[Path, tuple[Path, ...]]]):
    """Take a bundled program apart into a folder."""

    bundled: Path
    target: str
    """That reads it."""
    folder: Path

    def answer(self, _process: Answering) -> tuple[Path, tuple[Path, ...]]:
        """Return the manifest, and a tensor file for each test case."""
        artifact, cases = resolve(self.target).backend.read_bundled(self.bundled, self.folder)
        return artifact.manifest_path, cases
