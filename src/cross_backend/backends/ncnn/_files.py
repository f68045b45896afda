"""The files of an ncnn payload: a folder of the graph, its weights, and how each tensor lies in ncnn's memory."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cross_backend.errors import LoadError
from cross_backend.foreign_files import read_regular
from cross_backend.serialization import from_json, to_json

PARAM, WEIGHTS, PORTS = "model.param", "model.bin", "ports.json"
MAGIC = "7767517"
"""First line of a graph in ncnn's text form."""
NO_BATCH = 233
"""What ncnn and pnnx call the batch dimension of a tensor that has none."""
_NO_WORK = {"Input", "MemoryData", "Split", "Noop"}
"""Layers that name, hold or share a tensor."""


@dataclass(frozen=True)
class Port:
    """One input or output."""

    blob: str
    """Its name in the graph."""
    batch: int
    """Which dimension is the batch, which ncnn keeps apart from the others; ``NO_BATCH`` for none."""
    as_float: bool = False
    """Whether an input of another type is handed over as float32; whole numbers are int32 otherwise."""


@dataclass(frozen=True)
class Ports:
    """Inputs and outputs, in the program's order."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]

    def write(self, folder: Path) -> None:
        """Write them into a payload."""
        (folder / PORTS).write_text(json.dumps(to_json(self), indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> Ports:
        """Read them from a payload.

        Raises:
            LoadError: the file is damaged.
            ArtifactError: it is missing, too long, or no file.
        """
        data = read_regular(folder / PORTS)
        try:
            ports = from_json(cls, json.loads(data))
            if not all(0 <= port.batch <= NO_BATCH for port in (*ports.inputs, *ports.outputs)):
                raise ValueError("a batch dimension is negative or too large")
        except Exception as error:
            raise LoadError(f"{folder / PORTS} is damaged: it does not describe inputs and outputs.") from error
        return ports


def layers_of(graph: Path) -> Counter[str]:
    """Count a graph's layers by their type, without those that compute nothing.

    Raises:
        ValueError: the file is no graph in ncnn's text form.
    """
    magic, _, *rows = graph.read_text(encoding="utf-8").splitlines()
    if magic.strip() != MAGIC:
        raise ValueError(f"{graph.name} does not begin with {MAGIC}")
    kinds = Counter(row.split()[0] for row in rows if row.strip())
    return Counter({kind: count for kind, count in kinds.items() if kind not in _NO_WORK})
