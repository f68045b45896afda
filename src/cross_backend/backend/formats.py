"""Formats: files that some runtimes have beside their payloads; a backend names them, and nobody asks for its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cross_backend.artifact import Artifact


@dataclass(frozen=True)
class ForeignFiles:
    """Payloads that others made: no manifest describes them, they say themselves what they take."""

    suffix: str
    """Their ending; one backend of a family reads it."""
    describe: Callable[[Path], Artifact]
    """Return what a file takes and returns, and the target that runs it; UnsupportedError where it does not say."""


@dataclass(frozen=True)
class BundledPrograms:
    """Files that hold a payload and its test cases: inputs, and what must come out."""

    suffix: str
    """Their ending."""
    begins: Callable[[bytes], bool]
    """Whether a file with these first eight bytes is one."""
    write: Callable[[Artifact, Path], None]
    """Write an artifact's payload with its sample; UnsupportedError where there is none, or it does not fit."""
    read: Callable[[Path, Path], tuple[Artifact, tuple[Path, ...]]]
    """Take a file apart: an artifact in a folder, and the tensor files of its test cases.

    A tensor file has the groups ``input`` and ``expected``; the first is the artifact's sample. UnsupportedError where
    it holds what cannot be verified, ArtifactError where it is damaged.
    """
