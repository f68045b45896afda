"""Top classes: which class an open session computes for each of the inputs that quantisers observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.bench.reading import Reading

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact
    from cross_backend.tensors import Tensors


@dataclass(frozen=True)
class TopClasses(Reading[list[int]]):
    """The class of the first row of every input; nothing where the first output is not a score a class."""

    inputs: Path
    """Tensor file: a group an input, or a sample's with the group ``input``."""

    def read(self, artifact: OpenArtifact) -> list[int]:
        """Return an index an input, or an empty list."""
        from cross_backend.tensors import kind_of, load_tensors, to_numpy

        found = []
        for tensors in observed(load_tensors(self.inputs)):
            first = to_numpy(artifact.session.bind(tensors)()[0])
            if first.ndim != 2 or first.shape[1] < 2 or kind_of(first) != "f":
                return []
            found.append(int(first[0].argmax()))
        return found


def observed(groups: Mapping[str, Tensors]) -> list[Tensors]:
    """Return the inputs of a file: all groups, or of a sample the one that is an input."""
    return [groups["input"]] if "input" in groups else list(groups.values())


def agreement(found: list[int], wanted: list[int]) -> float:
    """Return the share of inputs that two programs give the same class."""
    return sum(a == b for a, b in zip(found, wanted, strict=True)) / len(wanted)
