"""What was captured: a program on disk with its sample and what was recorded of it, the same for every backend."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from cross_backend.artifact import digest_path
from cross_backend.cache import key_of
from cross_backend.errors import ArtifactError, one_line
from cross_backend.program.pt2 import load_pt2
from cross_backend.serialization import from_json
from cross_backend.structure import Structure
from cross_backend.tensors import TensorSpec, from_numpy, load_tensors

if TYPE_CHECKING:
    from torch.export import ExportedProgram


@dataclass(frozen=True)
class OnnxProgram:
    """A program that is an ONNX file.

    Example:
        >>> from pathlib import Path
        >>> onnx = xb.OnnxProgram(Path("models/net.onnx"))
        >>> artifact = xb.lower(onnx, "openvino")  # doctest: +SKIP
    """

    path: Path
    """One file, its weights inside."""


Program: TypeAlias = "ExportedProgram | OnnxProgram"
"""What every backend lowers."""

STRUCTURE = "structure.json"
"""File beside a captured program that says what the model itself takes and returns."""

CALIBRATION = "calibration.npz"
"""File beside it with the inputs that quantisers observe; absent where that are the example inputs."""

CALIBRATED_ON = "calibration.json"
"""File beside it that says where those are from; no part of the digest."""

TASK = "task.npz"

METRIC = "metric.txt"
"""File beside it with the name of its metric, and the digest of the file that one of the user's own is from."""

PROOF = "proof.json"
"""File beside it that says what the sample and the probes reach; no part of the digest."""

MEDIA = "media.json"
"""File beside it that says what the inputs are made of and what the outputs mean; no part of the digest."""


@dataclass(frozen=True)
class Captured:
    """A captured workload on disk; immutable, the same for every backend."""

    folder: Path
    workload: str
    """Name of the workload."""
    program_name: str
    """``program.pt2`` or ``program.onnx``."""
    digest: str
    """Digest of the program's graph, weights, sample and labels."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    state: tuple[TensorSpec, ...] = field(kw_only=True, default=())
    """Buffers that a call changes, on which the next one depends; their initial values are the sample's ``state``."""
    metric: str | None
    """Task metric, where the workload has a task."""
    flops: int | None
    """Floating point operations of one inference of the sample, a multiply-add being two, as torch's flop counter
    knows them: matrix products, convolutions, attention. None where they are not counted: ONNX files, free extents,
    control flow."""
    capture_s: float
    """Seconds that building and capturing took."""
    batch: int
    """Extent of the batch dimension that was asked for, 1 where none was; a task's samples are scored so many at a
    time."""
    files: Mapping[str, str]
    """Name → SHA-256 of every file in the folder but the record itself."""
    task_from: str | None = None
    """``FILE.py:function`` of a metric of the user's own; not in the record, which holds no code."""
    lines: str = ""
    """Digest of the lines of Python that made the nodes, which certificates name; two programs of one ``digest`` may
    come from different lines. Empty for ONNX files and parts."""
    was_training: bool = False
    """Whether this capture switched the module to evaluation mode; not in the record, which is of its outcome."""

    @property
    def cache_key(self) -> str:
        """Where the cache keeps it if nothing is known of its source."""
        return key_of({"program": self.digest, "lines": self.lines}) if self.lines else self.digest[:32]

    @property
    def sample_path(self) -> Path:
        """What ``make_sample`` gave."""
        return self.folder / "sample.npz"

    @property
    def task_path(self) -> Path:
        """Groups ``input`` and ``label``; only where ``metric`` is not None."""
        return self.folder / TASK

    @property
    def labels_path(self) -> Path | None:
        """One class name per line, where the workload has classes."""
        path = self.folder / "labels.txt"
        return path if path.is_file() else None

    @property
    def structure(self) -> Structure | None:
        """What the model itself takes and returns; None where that are flat tensors, one output as itself."""
        path = self.folder / STRUCTURE
        return Structure.from_json(json.loads(path.read_text())) if path.is_file() else None

    @property
    def media(self) -> Mapping[str, Any] | None:
        """What ``Media.to_json`` of the workload gave; None where it works on tensors."""
        path = self.folder / MEDIA
        return json.loads(path.read_text()) if path.is_file() else None

    @property
    def proof(self) -> Mapping[str, Any]:
        """What the expected outputs are, and what sample and probes reach; of ONNX files only the first.

        ``reference``: who gave the expected outputs;
        ``state``: buffers that a call changes; ``probes``: names; ``dropped``: probe → why; ``sides`` of all conditions
        of the program, how many were ``reached``, and the ``missed`` ones.
        """
        path = self.folder / PROOF
        return json.loads(path.read_text()) if path.is_file() else {}

    def check(self) -> None:
        """Compare the files with the record.

        Raises:
            ArtifactError: one is missing or was changed.
        """
        for name, wanted in self.files.items():
            if not (self.folder / name).is_file() or digest_path(self.folder / name) != wanted:
                raise ArtifactError(f"{self.folder / name} is missing or damaged.")

    def calibration(self) -> list[tuple[Any, ...]]:
        """Return the inputs for quantisers, NumPy arrays: the workload's own, or the sample."""
        path = self.folder / CALIBRATION
        return list(load_tensors(path).values()) if path.is_file() else [load_tensors(self.sample_path)["input"]]

    def calibrated_on(self) -> Mapping[str, Any] | None:
        """Return how many ``inputs`` quantisers observe, ``of`` how many, ``from`` where, and the choice's ``seed``."""
        path = self.folder / CALIBRATED_ON
        return json.loads(path.read_text()) if path.is_file() else None

    def program(self) -> Program:
        """Load the program; imports torch for ``.pt2``."""
        path = self.folder / self.program_name
        if path.suffix == ".onnx":
            return OnnxProgram(path)
        program = load_pt2(path)
        program.example_inputs = _structured(program, load_tensors(self.sample_path)["input"])
        return program

    @classmethod
    def read(cls, folder: Path) -> Captured:
        """Read what ``write_capture`` wrote.

        Raises:
            ArtifactError: the folder is damaged.
        """
        try:
            row = json.loads((folder / "capture.json").read_text())
            for key in ("inputs", "outputs"):
                row[key] = from_json(tuple[TensorSpec, ...], row[key])
            row["state"] = from_json(tuple[TensorSpec, ...], row.get("state", []))
            return cls(folder=folder, **row)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ArtifactError(f"{folder} is not a captured workload ({one_line(error)}).") from error


def _structured(program: ExportedProgram, leaves: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a program's positional and keyword inputs, of flat NumPy arrays."""
    from torch.utils import _pytree

    in_spec = program.call_spec.in_spec
    assert in_spec is not None, "torch.export always writes one"
    args, kwargs = _pytree.tree_unflatten([from_numpy(x) for x in leaves], in_spec)
    return tuple(args), dict(kwargs)
