"""The manifest of a bundle: read and checked for form (docs/bundle.md)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cross_backend.artifact import DAMAGE, Artifact, digest_path, media_row, plain_name, read_versioned, size_in
from cross_backend.bundling.evidence import Evidence, fitting, read_evidence
from cross_backend.errors import ArtifactError, one_line
from cross_backend.foreign_files import read_regular
from cross_backend.machine import MachineIdentity
from cross_backend.names.target import Target
from cross_backend.placement import Placement
from cross_backend.structure import Structure
from cross_backend.tensors import TensorSpec, read_specs
from cross_backend.verify.further import OWN, STEP

FORMAT = "cross-backend-bundle"
VERSION = 1
"""Manifest version. History: 1, the first; ``structure``, ``media``, ``evidence``, ``state`` and ``tokenizer`` were
added within it."""
MANIFEST = "manifest.json"
SAMPLE = "sample"
SAMPLE_GROUPS = {
    "inputs": "input",
    "expected": "expected",
    "inputs2": "input2",
    "expected2": "expected2",
    "scale": "scale",
    "rounding": "rounding",
    "narrow": "narrow",
    "state": "state",
}
"""Key of the manifest's sample → group of a sample file; all but the first two may be absent."""
FURTHER = {"own": OWN, "steps": STEP}
"""The same of groups that are numbered: the user's inputs, and the calls after the first."""
LABELS = "labels.txt"
TOKENIZER = "tokenizer.json"
MAX_ARTIFACTS = 100
MAX_TENSORS = 1000
"""Inputs, and outputs."""


@dataclass(frozen=True)
class Bundle:
    """A bundle's folder, read and checked for form; payload bytes are checked when an artifact is opened."""

    folder: Path
    model: str
    artifacts: tuple[Artifact, ...]
    """In fallback order."""
    orders: Mapping[str, tuple[str, ...]]
    """Platform → names of artifacts in its fallback order."""
    labels: tuple[str, ...]
    """Class names, by index of the output."""
    evidence: tuple[Evidence, ...] = ()
    """What was measured on machines of its platforms."""

    def ordered(self, platform: str, device: MachineIdentity | None = None) -> list[Artifact]:
        """Return the artifacts in a platform's order; in the bundle's own where it was not made for that platform.

        Args:
            platform: class of devices.
            device: where they are to run; the order measured on such a device counts, if there is one.
        """
        evidence = self.fitting(platform, device) if device else None
        if platform not in self.orders:
            return list(self.artifacts)
        by_name = {artifact.name: artifact for artifact in self.artifacts}
        return [by_name[name] for name in (evidence.order if evidence else self.orders[platform])]

    def fitting(self, platform: str, device: MachineIdentity) -> Evidence | None:
        """Return the evidence that orders a platform's artifacts on a device, or None."""
        return fitting(self.evidence, platform, device)

    @classmethod
    def read(cls, folder: Path) -> Bundle:
        """Read a bundle's folder.

        Raises:
            ArtifactError: missing, damaged, of a newer format version, or its paths leave the folder.
        """
        path = folder / MANIFEST
        if not path.exists():
            raise ArtifactError(f"{folder} is not a bundle: it has no {MANIFEST}.")
        try:
            return cls._from_row(folder, read_versioned(path, FORMAT, VERSION))
        except DAMAGE as error:
            raise ArtifactError(f"{path} is damaged or not a bundle's manifest ({one_line(error, 200)}).") from error

    @classmethod
    def _from_row(cls, folder: Path, row: Mapping[str, Any]) -> Bundle:
        rows = row["artifacts"]
        if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_ARTIFACTS:
            raise ValueError(f"it must hold 1 to {MAX_ARTIFACTS} artifacts")
        inputs, outputs = _specs(row, "inputs", "inputs"), _specs(row, "outputs", "expected")
        if row["sample"] is not None:
            _check_sample(row["sample"], len(inputs), len(outputs))
        labels = _read_labels(folder, row["labels"])
        _check_tokenizer(folder, row.get("tokenizer"))
        shared: dict[str, Any] = {
            "workload": plain_name(row["model"]),
            "program": _digest(row["program"]),
            "inputs": inputs,
            "outputs": outputs,
            "state": read_specs(row.get("state", [])),
            "structure": Structure.read(row.get("structure"), len(inputs), len(outputs)),
            "media": _read_media(row.get("media"), labels),
            "sample": None if row["sample"] is None else SAMPLE,
            "sample_sha256": None if row["sample"] is None else _sample_digest(row["sample"]),
        }
        artifacts = tuple(_read_artifact(folder, one, shared) for one in rows)
        names = [artifact.name for artifact in artifacts]
        if len(set(names)) < len(names):
            raise ValueError("two artifacts have one name")
        orders = {str(platform): tuple(str(name) for name in order) for platform, order in row["orders"].items()}
        for order in orders.values():
            unknown = set(order) - set(names)
            if unknown:
                raise ValueError(f"an order names {min(unknown)!r}, which is no artifact")
            if len(set(order)) < len(order):
                raise ValueError("an order names an artifact twice")
        evidence = read_evidence(row.get("evidence"), orders)
        return cls(folder, shared["workload"], artifacts, orders, labels, evidence)


def _specs(row: Mapping[str, Any], key: str, sample: str) -> tuple[TensorSpec, ...]:
    """Read ``inputs`` or ``outputs``; a sample must hold one tensor for each."""
    specs = row[key]
    fits = isinstance(specs, list) and len(specs) <= MAX_TENSORS
    if not fits or (row["sample"] is not None and len(row["sample"][sample]) != len(specs)):
        raise ValueError(f"{key} must be at most {MAX_TENSORS}, with one tensor each in the sample")
    return read_specs(specs)


def _read_artifact(folder: Path, row: Mapping[str, Any], shared: Mapping[str, Any]) -> Artifact:
    Target.parse(str(row["target"]))
    artifact = Artifact(
        folder=folder,
        name=plain_name(row["name"]),
        target=str(row["target"]),
        payload=plain_name(row["path"]),
        sha256=_digest(row["sha256"]),
        size_bytes=size_in(row["size_bytes"]),
        placement=Placement.from_json(row["placement"]),
        estimate={str(k): float(v) for k, v in row["estimate"].items()},
        versions={str(k): str(v) for k, v in row["versions"].items()},
        export_s=float(row["export_s"]),
        described_by=MANIFEST,
        **shared,
    )
    # Refuses NaN and infinities, which no JSON report can hold.
    json.dumps([artifact.placement.to_json(), artifact.estimate, artifact.export_s], allow_nan=False)
    return artifact


def _digest(value: Any) -> str:
    """Accept a SHA-256 in hexadecimal digits."""
    if not isinstance(value, str) or not re.fullmatch("[0-9a-f]{64}", value):
        raise ValueError(f"{value!r} is no SHA-256")
    return value


def _check_sample(sample: Mapping[str, Any], inputs: int, outputs: int) -> None:
    """Check the counts of what a sample may have beside its inputs and expected outputs."""
    seconds = [len(sample.get(kind, ())) for kind in ("inputs2", "expected2")]
    scales, numbers = len(sample.get("scale", ())), max(len(sample.get(kind, ())) for kind in ("rounding", "narrow"))
    if seconds not in ([0, 0], [inputs, outputs]) or scales not in {0, outputs} or numbers > 1:
        raise ValueError("the second sample, or the scales, are not one for each input and output")


def _sample_digest(sample: Mapping[str, Any]) -> str:
    """Return the digest that the sample folder must have, as ``digest_path`` computes it."""
    files = {}
    for row in (row for kind in (*SAMPLE_GROUPS, *FURTHER) for row in sample.get(kind, ())):
        parent, _, name = str(row["path"]).partition("/")
        if parent != SAMPLE:
            raise ValueError(f"sample file {row['path']!r} does not lie in {SAMPLE}/")
        files[plain_name(name)] = _digest(row["sha256"])
    lines = "".join(f"{name}\0{files[name]}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def _read_media(row: Any, labels: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Return what the media are, with the labels of the file beside it where they are its own."""
    media = media_row(row)
    json.dumps(media, allow_nan=False)
    from_file = media is not None and "labels" in media and media["labels"] is None
    return {**media, "labels": list(labels)} if media is not None and from_file else media


def _read_labels(folder: Path, row: Mapping[str, Any] | None) -> tuple[str, ...]:
    if row is None:
        return ()
    path = folder / plain_name(row["path"])
    if digest_path(path) != row["sha256"]:
        raise ValueError(f"{path.name} was changed")
    return tuple(read_regular(path).decode().splitlines())


def _check_tokenizer(folder: Path, row: Mapping[str, Any] | None) -> None:
    if row is not None and (row["path"] != TOKENIZER or digest_path(folder / TOKENIZER) != row["sha256"]):
        raise ValueError(f"{TOKENIZER} was changed")
