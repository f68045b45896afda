"""The encoder of an encoder-decoder: run once for a sequence; its outputs are the memory that every call takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.measure import memory
from cross_backend.measure.clock import timed
from cross_backend.tensors import TensorSpec, load_tensors, save_tensors
from cross_backend.worker.question import WRITTEN

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact
    from cross_backend.exporting.export import Exported
    from cross_backend.program.captured import Captured

GROUP = "memory"
"""Group of the file that holds the memory."""


@dataclass(frozen=True)
class Encoder:
    """The encoder of a decoder, captured and exported to the same targets."""

    captured: Captured
    rows: Sequence[Exported]
    """One a target, in the order of the decoder's."""


@dataclass(frozen=True)
class Encoded:
    """What one call of an encoder took."""

    ns: int
    peak_bytes: int


@dataclass(frozen=True)
class Encode(Reading[Encoded]):
    """Call an encoder on its sample, and write its outputs where the decoder's process reads them."""

    memory: Path = field(metadata=WRITTEN)

    def read(self, artifact: OpenArtifact) -> Encoded:
        """Return the duration of the call alone: neither binding nor writing is in it."""
        outputs, ns = timed(artifact.session.bind(artifact.sample["input"]))
        save_tensors(self.memory, {GROUP: outputs})
        return Encoded(ns, memory.peak_rss_bytes())


def write_reference(encoder: Captured, path: Path) -> Path:
    """Write the memory that the reference computes of the encoder's sample, and return the path."""
    save_tensors(path, {GROUP: load_tensors(encoder.sample_path)["expected"]})
    return path


def read_memory(path: Path | None) -> Sequence[Any]:
    """Return the arrays of a memory; none where a decoder takes none."""
    return () if path is None else load_tensors(path)[GROUP]


def kinds(specs: Sequence[TensorSpec]) -> list[tuple[str, tuple[int | str, ...]]]:
    """Return element types and shapes, by which a memory fits a decoder."""
    return [(spec.dtype, spec.shape) for spec in specs]
