"""Artifact: a payload and its manifest beside it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cross_backend import onnx_data
from cross_backend.errors import ArtifactError, UsageError, one_line
from cross_backend.foreign_files import open_regular, read_regular
from cross_backend.names.target import Target
from cross_backend.placement import Placement
from cross_backend.serialization import to_json
from cross_backend.structure import Structure
from cross_backend.tensors import TensorSpec, read_specs

FORMAT = "cross-backend-artifact"
VERSION = 3
"""Manifest version. History: 1, the first; 2, operators that were left have FLOPs and lines, placements have memory;
3, the structure of what the model takes and returns; ``media`` was added within it."""
MAX_NAME_BYTES = 255
"""Longest name that file systems take."""
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OSError, OverflowError, RecursionError, UsageError)
"""What reading a manifest that is not one may raise."""


@dataclass(frozen=True)
class Artifact:
    """A lowered program on disk; immutable.

    Example:
        >>> artifact.target, artifact.payload_path.suffix
        ('torch.eager', '.pt2')
        >>> xb.Artifact.read(artifact.manifest_path).sha256 == artifact.sha256
        True
    """

    folder: Path
    """Where payload, manifest and sample lie."""
    name: str
    """Stem of the manifest: ``mobilenet_v3_small_xnnpack``."""
    target: str
    """Full target, options included."""
    workload: str
    """Name of the workload, ``model`` for programs captured by hand."""
    program: str
    """Digest of the captured program."""
    payload: str
    """Name of the payload in the folder: a file, or a folder where the payload is several files."""
    sha256: str
    """Digest of the payload's bytes."""
    size_bytes: int
    """Size of the payload."""
    inputs: tuple[TensorSpec, ...]
    """What a session takes."""
    outputs: tuple[TensorSpec, ...]
    """What a session returns."""
    placement: Placement
    """The certificate."""
    versions: Mapping[str, str]
    """Distribution → version, of everything that took part in lowering."""
    export_s: float
    """Seconds that lowering took, capture excluded."""
    estimate: Mapping[str, float] = field(default_factory=dict)
    """What the vendor's compiler predicts of the device; never a measurement."""
    sample: str | None = None
    """Name of the ``.npz`` with sample inputs and expected outputs beside the manifest."""
    sample_sha256: str | None = None
    """Digest of the sample file."""
    bundled: str | None = None
    """Name of the same program with the sample inside, where it was asked for and the runtime has such a format."""
    bundled_sha256: str | None = None
    """Digest of that file."""
    state: tuple[TensorSpec, ...] = ()
    """What a call changes for the next one; the initial values are the sample's group ``state``."""
    structure: Structure | None = None
    """What the model itself takes and returns; None where that are flat tensors, one output as itself."""
    media: Mapping[str, Any] | None = None
    """What its inputs are made of and what its outputs mean, as its maker wrote it: ``loading.media`` reads it.
    None where that are tensors, or the manifest is older."""
    calibration: Mapping[str, Any] | None = None
    """Of how many inputs from where the scales of its activations are: ``inputs``, ``of``, ``seed``, ``from``; None
    where it has none of such scales."""
    ranges: tuple[str, ...] = ()
    """Sentences on weights that its precision cannot hold, and on activations beyond their range on the sample."""
    described_by: str | None = None
    """Name of the manifest that describes it, where that is a bundle's and not its own."""

    @property
    def manifest_path(self) -> Path:
        """The manifest: its own, or that of its bundle."""
        return self.folder / (self.described_by or f"{self.name}.json")

    @property
    def payload_path(self) -> Path:
        """The payload: a file or a folder."""
        return self.folder / self.payload

    @property
    def sample_path(self) -> Path | None:
        """Sample inputs and expected outputs, where the artifact has them."""
        return self.folder / self.sample if self.sample else None

    @property
    def bundled_path(self) -> Path | None:
        """The program with its sample inside, where the artifact has one."""
        return self.folder / self.bundled if self.bundled else None

    def to_json(self) -> dict[str, Any]:
        """Return the manifest."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "target": self.target,
            "workload": self.workload,
            "program": self.program,
            "payload": {"path": self.payload, "size_bytes": self.size_bytes, "sha256": self.sha256},
            "sample": {"path": self.sample, "sha256": self.sample_sha256} if self.sample else None,
            "bundled": {"path": self.bundled, "sha256": self.bundled_sha256} if self.bundled else None,
            "inputs": to_json(self.inputs),
            "outputs": to_json(self.outputs),
            "structure": self.structure.to_json() if self.structure else None,
            "media": dict(self.media) if self.media is not None else None,
            "placement": self.placement.to_json(),
            "estimate": dict(self.estimate),
            "versions": dict(self.versions),
            "export_s": self.export_s,
            **({"state": to_json(self.state)} if self.state else {}),
            **({} if self.calibration is None else {"calibration": dict(self.calibration)}),
            **({"ranges": list(self.ranges)} if self.ranges else {}),
        }

    def write_manifest(self) -> None:
        """Write the manifest beside the payload, whole or not at all."""
        _commit([_stage(None, self.manifest_path, json.dumps(self.to_json(), indent=2) + "\n")])

    @classmethod
    def read(cls, path: Path | str) -> Artifact:
        """Read the artifact whose manifest or payload is at ``path``; the payload's bytes are not looked at.

        Raises:
            ArtifactError: missing, damaged, or of a newer format version.
        """
        path = Path(path)
        stem = path.name if path.is_dir() else path.stem  # a folder's name may hold dots of its own
        manifest = path if path.suffix == ".json" else path.with_name(f"{stem}.json")
        if not path.exists():
            raise ArtifactError(f"{path} does not exist.")
        if not manifest.exists():
            raise ArtifactError(
                f"{path} has no manifest {manifest.name} beside it, so its content cannot be checked. "
                "Write it with 'cross-backend export'."
            )
        try:
            row = read_versioned(manifest, FORMAT, VERSION)
            sample, bundled = row.get("sample") or {}, row.get("bundled") or {}
            Target.parse(str(row["target"]))
            inputs, outputs = (read_specs(row[key]) for key in ("inputs", "outputs"))
            artifact = cls(
                folder=manifest.parent,
                name=manifest.stem,
                target=str(row["target"]),
                workload=str(row["workload"]),
                program=str(row["program"]),
                payload=plain_name(row["payload"]["path"]),
                sha256=str(row["payload"]["sha256"]),
                size_bytes=size_in(row["payload"]["size_bytes"]),
                inputs=inputs,
                outputs=outputs,
                state=read_specs(row.get("state", [])),
                structure=Structure.read(row.get("structure"), len(inputs), len(outputs)),
                media=media_row(row.get("media")),
                placement=Placement.from_json(row["placement"]),
                estimate={str(k): float(v) for k, v in row.get("estimate", {}).items()},
                versions={str(k): str(v) for k, v in row["versions"].items()},
                export_s=float(row["export_s"]),
                calibration=_calibration_row(row.get("calibration")),
                ranges=tuple(str(text) for text in row.get("ranges", ())),
                sample=plain_name(sample["path"]) if sample else None,
                sample_sha256=str(sample["sha256"]) if sample else None,
                bundled=plain_name(bundled["path"]) if bundled else None,
                bundled_sha256=str(bundled["sha256"]) if bundled else None,
            )
            json.dumps(artifact.to_json(), allow_nan=False)  # refuses NaN and infinities, which no report can hold
        except DAMAGE as error:
            raise ArtifactError(f"{manifest} is damaged or not an artifact manifest ({one_line(error)}).") from error
        return artifact

    def check(self) -> None:
        """Compare the payload's and the sample's bytes with the manifest.

        Raises:
            ArtifactError: something is missing, its digest differs, or the payload reads a file without one.
        """
        for kind, path, wanted in (
            ("payload", self.payload_path, self.sha256),
            ("sample", self.sample_path, self.sample_sha256),
            ("bundled program", self.bundled_path, self.bundled_sha256),
        ):
            if path is None:
                continue
            if not path.exists():
                raise ArtifactError(f"{path} is missing; {self.manifest_path.name} names it as its {kind}.")
            found = digest_path(path)
            if found != wanted:
                raise ArtifactError(
                    f"{path} is not the {kind} that {self.manifest_path.name} describes "
                    f"(sha256 {found[:12]}… instead of {str(wanted)[:12]}…): it was changed, truncated or "
                    "swapped. Export it again."
                )
        if self.payload_path.suffix == onnx_data.SUFFIX:
            onnx_data.require_whole(self.payload_path)

    def copy_to(self, folder: Path, name: str, target: str, sample_name: str) -> Artifact:
        """Copy payload, sample and manifest into ``folder`` under another name: all of them, or none.

        Raises:
            OSError: the folder cannot be written (full disk, no permission); what was there before is untouched.
        """
        folder.mkdir(parents=True, exist_ok=True)
        suffix = self.payload_path.suffix if self.payload_path.is_file() else ""
        copied = dataclasses.replace(
            self,
            folder=folder,
            name=name,
            target=target,
            payload=name + suffix,
            sample=sample_name if self.sample else None,
            bundled=name + Path(self.bundled).suffix if self.bundled else None,
            described_by=None,
        )
        sources = [(self.payload_path, copied.payload_path)]
        if self.bundled_path and copied.bundled_path:
            sources.append((self.bundled_path, copied.bundled_path))
        there = copied.sample_path
        if self.sample_path and there and not (there.is_file() and digest_path(there) == self.sample_sha256):
            sources.append((self.sample_path, there))
        staged: list[tuple[Path, Path]] = []
        try:
            for source, destination in sources:
                staged.append(_stage(source, destination))
            staged.append(_stage(None, copied.manifest_path, json.dumps(copied.to_json(), indent=2) + "\n"))
        except BaseException:  # Ctrl-C, too, must leave nothing half-written
            for partial, _ in staged:
                _delete(partial)
            raise
        _commit(staged)
        return copied


def _stage(source: Path | None, destination: Path, text: str = "") -> tuple[Path, Path]:
    """Write a copy (or a text, without a source) beside its destination; what fails leaves nothing."""
    partial = destination.with_name(f".{destination.name}.{os.getpid()}.tmp")
    try:
        if source is None:
            partial.write_text(text)
        elif source.is_file():
            shutil.copyfile(source, partial)
        else:
            shutil.copytree(source, partial)
    except BaseException:
        _delete(partial)
        raise
    return partial, destination


def _commit(staged: Sequence[tuple[Path, Path]]) -> None:
    """Move staged files and folders to their places; renaming needs no room."""
    for partial, destination in staged:
        if destination.is_dir() or partial.is_dir():
            _delete(destination)
        partial.replace(destination)


def _delete(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def digest_path(path: Path) -> str:
    """Return the SHA-256 of a file, or of a folder's files with their names, as hexadecimal digits.

    Raises:
        ArtifactError: missing or unreadable, or a pipe, a device or a socket is among them.
    """
    if not path.is_dir():
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    folder = hashlib.sha256()
    for file_path in sorted(p for p in path.rglob("*") if not p.is_dir()):
        folder.update(f"{file_path.relative_to(path).as_posix()}\0{digest_path(file_path)}\n".encode())
    return folder.hexdigest()


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    return path.stat().st_size if path.is_file() else sum(p.stat().st_size for p in path.rglob("*") if p.is_file())


def read_versioned(path: Path, form: str, newest: int) -> Mapping[str, Any]:
    """Read a manifest and check that it is of a format, and of a version that is known.

    Raises:
        ArtifactError: too long, no file, or of a newer version.
        ValueError, KeyError, …: one of ``DAMAGE``.
    """
    row: Mapping[str, Any] = json.loads(read_regular(path))
    if row["format"] != form:
        raise ValueError(f"format is {row['format']!r}")
    version = int(row["version"])
    if version > newest:
        raise ArtifactError(
            f"{path} has format version {version}; this cross-backend reads up to {newest}. Upgrade it."
        )
    return row


def media_row(row: Any) -> Mapping[str, Any] | None:
    """Accept a manifest's ``media`` for form."""
    if row is not None and not isinstance(row, dict):
        raise ValueError("media is no object")
    return row


def _calibration_row(row: Any) -> Mapping[str, Any] | None:
    """Accept a manifest's ``calibration`` for form."""
    if row is None:
        return None
    seed = row["seed"]
    counts = {key: size_in(row[key]) for key in ("inputs", "of")}
    return {**counts, "seed": None if seed is None else int(seed), "from": str(row["from"])}


def size_in(value: Any) -> int:
    """Accept a number of bytes that a file can have."""
    size = int(value)
    if not 0 <= size < 1 << 63:
        raise ValueError(f"{size} is no size")
    return size


def plain_name(name: Any) -> str:
    """Accept a name that stays inside its folder and that a message can show; refuse paths."""
    plain = isinstance(name, str) and name.isprintable() and not set(name) & set("/\\:") and name not in {"", ".", ".."}
    if not plain or len(name.encode()) > MAX_NAME_BYTES:
        raise ValueError(f"{name!r} is not a plain file name")
    return str(name)
