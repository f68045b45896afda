"""Foreign files: which backend reads what no manifest describes, and what is asked of a worker about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.backend import Backend, BundledPrograms
from cross_backend.errors import ArtifactError, UnsupportedError
from cross_backend.registry import backends
from cross_backend.tensors import TensorSpec
from cross_backend.worker.question import Answering, Question


def reader_of(payload: Path) -> Backend | None:
    """Return the backend that reads files of this ending without a manifest."""
    return next((one for one in backends() if one.foreign is not None and one.foreign.suffix == payload.suffix), None)


def describe(payload: Path) -> Artifact:
    """Return what a payload that no manifest describes takes and returns, read from the file; there is no sample.

    Raises:
        UnsupportedError: such files do not tell.
        LoadError: the runtime refuses it.
    """
    reader = reader_of(payload)
    if reader is None or reader.foreign is None:
        raise UnsupportedError(f"{payload.name} cannot be read without its manifest; export it again.")
    return reader.foreign.describe(payload)


def bundled_formats() -> Mapping[BundledPrograms, str]:
    """Return each format of bundled programs, and the ending of the payloads in its files."""
    return {one.bundled: one.suffix for one in backends() if one.bundled is not None}


def bundled_format(path: Path) -> BundledPrograms | None:
    """Return the format that a file begins as; None for one that is no bundled program, or no file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        head = file.read(8)
    return next((kind for kind in bundled_formats() if kind.begins(head)), None)


@dataclass(frozen=True)
class Describe(Question[tuple[str, tuple[TensorSpec, ...]]]):
    """Which target runs a payload that no manifest describes, and what it takes."""

    payload: Path

    def answer(self, _process: Answering) -> tuple[str, tuple[TensorSpec, ...]]:
        """Return what the file says."""
        artifact = describe(self.payload)
        return artifact.target, artifact.inputs


@dataclass(frozen=True)
class Unbundle(Question[tuple[Path, tuple[Path, ...]]]):
    """Take a bundled program apart into a folder."""

    bundled: Path
    folder: Path

    def answer(self, _process: Answering) -> tuple[Path, tuple[Path, ...]]:
        """Return the manifest, and a tensor file for each test case."""
        kind = bundled_format(self.bundled)
        if kind is None:
            raise ArtifactError(f"{self.bundled} is not a bundled program.")
        artifact, cases = kind.read(self.bundled, self.folder)
        return artifact.manifest_path, cases
