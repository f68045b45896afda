"""Bundle: what is shipped: artifacts of one program in fallback order, sample, loaders (format: docs/bundle.md)."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cross_backend._version import __version__
from cross_backend.artifact import DAMAGE, Artifact, Placement, digest_path, plain_name
from cross_backend.errors import ArtifactError, UsageError, one_line
from cross_backend.loaders import write_loaders
from cross_backend.remembered import Measured
from cross_backend.target import Target
from cross_backend.tensors import TensorSpec, load_tensors

if TYPE_CHECKING:
    from cross_backend.cache import Cache
    from cross_backend.capture import Captured

FORMAT = "cross-backend-bundle"
VERSION = 1
"""Manifest version. History: 1, the first."""
MANIFEST = "manifest.json"
SAMPLE = "sample"
LABELS = "labels.txt"
MAX_MANIFEST_BYTES = 16 << 20
"""Longer manifests are refused before they are parsed."""
MAX_ARTIFACTS = 100
MAX_TENSORS = 1000
"""Inputs, and outputs."""
MAX_FILES = 10_000
"""Members of a zip file."""
MAX_DEPTH = 16
"""Folders in folders in a zip file."""
MAX_READ_BYTES = 4 << 20
"""Longest piece of a zip file that is read at once; its table of contents is one."""
MAX_UNPACKED = 100
"""How many times its own size (and the longest manifest) a zip file may unpack to."""
KIND = "bundles"


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

    def ordered(self, platform: str) -> list[Artifact]:
        """Give the artifacts in a platform's order; in the bundle's own where it was not made for that platform."""
        if platform not in self.orders:
            return list(self.artifacts)
        by_name = {artifact.name: artifact for artifact in self.artifacts}
        return [by_name[name] for name in self.orders[platform]]

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
            return cls._from_row(folder, _read_manifest(path))
        except DAMAGE as error:
            raise ArtifactError(f"{path} is damaged or not a bundle's manifest ({one_line(error, 200)}).") from error

    @classmethod
    def _from_row(cls, folder: Path, row: Mapping[str, Any]) -> Bundle:
        rows = row["artifacts"]
        if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_ARTIFACTS:
            raise ValueError(f"it must hold 1 to {MAX_ARTIFACTS} artifacts")
        shared: dict[str, Any] = {
            "workload": plain_name(row["model"]),
            "program": _digest(row["program"]),
            "inputs": _specs(row, "inputs", "inputs"),
            "outputs": _specs(row, "outputs", "expected"),
            "sample_sha256": _sample_digest(row["sample"]),
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
        labels = _read_labels(folder, row["labels"])
        return cls(folder, shared["workload"], artifacts, orders, labels)


def _read_manifest(path: Path) -> Mapping[str, Any]:
    """Read a manifest and check that it is one, of a version that is known.

    Raises:
        ArtifactError: too long, or of a newer format version.
        ValueError, KeyError, …: one of ``DAMAGE``.
    """
    if path.stat().st_size > MAX_MANIFEST_BYTES:
        raise ArtifactError(f"{path} is longer than {MAX_MANIFEST_BYTES >> 20} MiB: not a bundle's manifest.")
    row: Mapping[str, Any] = json.loads(path.read_bytes())
    if row["format"] != FORMAT:
        raise ValueError(f"format is {row['format']!r}")
    version = int(row["version"])
    if version > VERSION:
        raise ArtifactError(
            f"{path} has format version {version}; this cross-backend reads up to {VERSION}. Upgrade it."
        )
    return row


def _specs(row: Mapping[str, Any], key: str, sample: str) -> tuple[TensorSpec, ...]:
    """Read ``inputs`` or ``outputs``; the sample must hold one tensor for each."""
    specs = row[key]
    if not isinstance(specs, list) or len(specs) > MAX_TENSORS or len(row["sample"][sample]) != len(specs):
        raise ValueError(f"{key} must be at most {MAX_TENSORS}, with one tensor each in the sample")
    return tuple(TensorSpec.from_json(spec) for spec in specs)


def _read_artifact(folder: Path, row: Mapping[str, Any], shared: Mapping[str, Any]) -> Artifact:
    Target.parse(str(row["target"]))
    artifact = Artifact(
        folder=folder,
        name=plain_name(row["name"]),
        target=str(row["target"]),
        payload=plain_name(row["path"]),
        sha256=_digest(row["sha256"]),
        size_bytes=_size(row["size_bytes"]),
        placement=Placement.from_json(row["placement"]),
        estimate={str(k): float(v) for k, v in row["estimate"].items()},
        versions={str(k): str(v) for k, v in row["versions"].items()},
        export_s=float(row["export_s"]),
        sample=SAMPLE,
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


def _size(value: Any) -> int:
    """Accept a number of bytes that a file can have."""
    size = int(value)
    if not 0 <= size < 1 << 63:
        raise ValueError(f"{size} is no size")
    return size


def _sample_digest(sample: Mapping[str, Any]) -> str:
    """Give the digest that the sample folder must have, as ``digest_path`` computes it."""
    files = {}
    for row in (*sample["inputs"], *sample["expected"]):
        parent, _, name = str(row["path"]).partition("/")
        if parent != SAMPLE:
            raise ValueError(f"sample file {row['path']!r} does not lie in {SAMPLE}/")
        files[plain_name(name)] = _digest(row["sha256"])
    lines = "".join(f"{name}\0{files[name]}\n" for name in sorted(files))
    return hashlib.sha256(lines.encode()).hexdigest()


def _read_labels(folder: Path, row: Mapping[str, Any] | None) -> tuple[str, ...]:
    if row is None:
        return ()
    path = folder / plain_name(row["path"])
    if digest_path(path) != row["sha256"]:
        raise ValueError(f"{path.name} was changed")
    return tuple(path.read_text().splitlines())


def is_payload(folder: Path) -> bool:
    """Say whether a folder is one artifact's payload: its manifest lies beside it, or a bundle around it names it."""
    folder = folder.resolve()
    around = folder.parent
    if (around / f"{folder.name}.json").is_file():
        return True
    return is_bundle(around) and any(artifact.payload == folder.name for artifact in Bundle.read(around).artifacts)


def find_artifact(path: Path) -> Artifact:
    """Read an artifact by its payload or manifest, standing alone or in a bundle.

    Raises:
        ArtifactError: missing, damaged, or of a newer format version.
    """
    if path.name in {"", ".."}:
        path = path.resolve()
    if not path.name:
        raise ArtifactError(f"{path} is no artifact.")
    manifest = path.with_name(MANIFEST)
    own = path.with_name(f"{path.name if path.is_dir() else path.stem}.json")
    if path.suffix == ".json" or own.is_file() or not (path.exists() and manifest.is_file()):
        return Artifact.read(path)
    for artifact in Bundle.read(path.parent).artifacts:
        if artifact.payload == path.name:
            return artifact
    raise ArtifactError(f"{manifest} does not name {path.name}.")


def is_bundle(path: Path) -> bool:
    """Say whether a path looks like a bundle: a folder with ``manifest.json``, or a zip file."""
    return (path / MANIFEST).is_file() if path.is_dir() else path.suffix == ".zip"


def open_bundle(path: Path, cache: Cache) -> Bundle:
    """Read a bundle: a folder, or a zip file, which is unpacked into the cache under its digest.

    Raises:
        ArtifactError: missing, damaged, or of a newer format version.
    """
    if path.is_dir():
        return Bundle.read(path)
    if not path.is_file():
        raise ArtifactError(f"{path} does not exist.")
    key = digest_path(path)[:32]
    folder = cache.find(KIND, key)
    if folder is not None:
        with contextlib.suppress(ArtifactError):
            return Bundle.read(folder)
        cache.drop(KIND, key)
    with cache.scratch() as scratch:
        try:
            _unpack(path, scratch)
            Bundle.read(scratch)
        except ArtifactError as error:  # the scratch folder is gone when its name is read
            raise ArtifactError(str(error).replace(str(scratch), str(path))) from error
        return Bundle.read(cache.publish(scratch, KIND, key))


class _ZipReader(io.BufferedReader):
    """A zip file of which no long piece is read at once: zipfile would hold a million members' names in memory."""

    def read(self, size: int | None = -1, /) -> bytes:
        if (size or 0) > MAX_READ_BYTES:
            raise ValueError(f"its table of contents is longer than {MAX_READ_BYTES >> 20} MiB")
        return super().read(size)


ZIP_DAMAGE = (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error, *DAMAGE)
"""What reading a zip file that is damaged, encrypted or none may raise."""


def _unpack(path: Path, folder: Path) -> None:
    """Unpack what the manifest names, and not a byte more than it says; every other member is left alone."""
    try:
        with _ZipReader(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            _copy_member(archive, MANIFEST, folder, MAX_MANIFEST_BYTES)
            allowed = _allowed_bytes(_read_manifest(folder / MANIFEST))
            if sum(allowed.values()) > MAX_UNPACKED * path.stat().st_size + 2 * MAX_MANIFEST_BYTES:
                raise ValueError(f"it would unpack to {sum(allowed.values())} bytes, too many for a file of its size")
            members = [name for name in archive.namelist() if not name.endswith("/")]
            if len(members) > MAX_FILES:
                raise ValueError(f"it holds more than {MAX_FILES} files")
            for name in members:
                top = name.partition("/")[0]
                if top in allowed:
                    allowed[top] -= _copy_member(archive, name, folder, allowed[top])
    except ZIP_DAMAGE as error:
        raise ArtifactError(f"{path} is damaged or not a bundle ({one_line(error, 200)}).") from error


def _allowed_bytes(row: Mapping[str, Any]) -> dict[str, int]:
    """Give top-level file or folder → bytes that it may unpack to, by what the manifest says."""
    samples = [*row["sample"]["inputs"], *row["sample"]["expected"]]
    allowed = {SAMPLE: sum(_size(one["offset"]) + _size(one["size_bytes"]) for one in samples)}
    if row["labels"] is not None:
        allowed[plain_name(row["labels"]["path"])] = MAX_MANIFEST_BYTES
    for artifact in row["artifacts"]:
        allowed[plain_name(artifact["path"])] = _size(artifact["size_bytes"])
    return allowed


def _copy_member(archive: zipfile.ZipFile, name: str, folder: Path, limit: int) -> int:
    """Unpack one member under its own name and give its size.

    Raises:
        ValueError: it is longer than ``limit`` bytes, packed in another way than zip files usually are, or its name
            leaves the folder or is nested too deep.
    """
    parts = [plain_name(part) for part in name.split("/")]
    if len(parts) > MAX_DEPTH:
        raise ValueError(f"it holds folders nested more than {MAX_DEPTH} deep")
    if archive.getinfo(name).compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise ValueError(f"{name} is neither stored nor deflated")
    target = folder.joinpath(*parts)
    target.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with archive.open(name) as source, target.open("wb") as file:
        while chunk := source.read(1 << 20):
            size += len(chunk)
            if size > limit:
                raise ValueError(f"{name} unpacks to more than {limit} bytes")
            file.write(chunk)
    return size


def write_bundle(
    captured: Captured,
    artifacts: Sequence[tuple[Artifact, str, str, float]],
    orders: Mapping[str, Sequence[str]],
    measured: Mapping[str, Measured],
    parent: Path,
    *,
    zipped: bool = False,
) -> Path:
    """Write ``parent/<model>`` (or ``parent/<model>.zip``) whole, in the place of an older bundle of that model.

    Args:
        captured: the program, its sample and labels.
        artifacts: (artifact, public name, title for people, tolerance), in fallback order.
        orders: platform → public names in that platform's order.
        measured: public name → what was measured on this machine.
        parent: folder that exists.
        zipped: write one file instead of a folder.

    Raises:
        UsageError: something lies there that is no bundle.
        OSError: the folder cannot be written; an older bundle is untouched.
    """
    model = captured.workload
    place = parent / (f"{model}.zip" if zipped else model)
    if place.exists() and not _may_replace(place):
        raise UsageError(f"{place} exists and is not a bundle; it is left alone. Choose another --output-dir.")
    scratch = Path(tempfile.mkdtemp(prefix=f".{model}-", dir=parent))
    try:
        folder = scratch / model
        folder.mkdir()
        _fill(folder, captured, artifacts, orders, measured)
        if zipped:
            _zip(folder, scratch / place.name)
        _replace(scratch / place.name, place, scratch / "old")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return place


def _replace(new: Path, place: Path, aside: Path) -> None:
    """Move a file or folder to its place; a folder that lies there goes aside, or back if that fails."""
    if place.is_dir():
        place.rename(aside)
    try:
        new.replace(place)
    except BaseException:  # Ctrl-C, too
        if aside.exists():
            aside.rename(place)
        raise


def _may_replace(place: Path) -> bool:
    """Say whether what lies there is a bundle, of any version, or an empty folder."""
    if place.is_dir() and not any(place.iterdir()):
        return True
    with contextlib.suppress(*ZIP_DAMAGE), contextlib.ExitStack() as stack:
        if place.is_dir():
            file: IO[bytes] = stack.enter_context((place / MANIFEST).open("rb"))
        else:
            archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(_ZipReader(io.FileIO(place)))))
            file = stack.enter_context(archive.open(MANIFEST))
        return bool(json.loads(file.read(MAX_MANIFEST_BYTES))["format"] == FORMAT)
    return False


def _fill(
    folder: Path,
    captured: Captured,
    artifacts: Sequence[tuple[Artifact, str, str, float]],
    orders: Mapping[str, Sequence[str]],
    measured: Mapping[str, Measured],
) -> None:
    rows = []
    for artifact, name, title, tolerance in artifacts:
        payload = name + (artifact.payload_path.suffix if artifact.payload_path.is_file() else "")
        if artifact.payload_path.is_file():
            shutil.copyfile(artifact.payload_path, folder / payload)
        else:
            shutil.copytree(artifact.payload_path, folder / payload)
        result = measured.get(name)
        rows.append(
            {
                "name": name,
                "target": artifact.target,
                "title": title,
                "path": payload,
                "size_bytes": artifact.size_bytes,
                "sha256": artifact.sha256,
                "tolerance": tolerance,
                "placement": artifact.placement.to_json(),
                "estimate": dict(artifact.estimate),
                "versions": dict(artifact.versions),
                "export_s": artifact.export_s,
                "measured": dataclasses.asdict(result) if result else None,
            }
        )
    labels = None
    if captured.labels_path is not None:
        shutil.copyfile(captured.labels_path, folder / LABELS)
        labels = {"path": LABELS, "sha256": digest_path(folder / LABELS)}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "model": captured.workload,
        "program": captured.digest,
        "made_by": {"cross-backend": __version__},
        "inputs": [spec.to_json() for spec in captured.inputs],
        "outputs": [spec.to_json() for spec in captured.outputs],
        "sample": _write_sample(folder, captured),
        "labels": labels,
        "artifacts": rows,
        "orders": {platform: list(order) for platform, order in orders.items()},
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, allow_nan=False) + "\n")
    write_loaders(captured.workload, list(orders), folder / "loaders")


def _write_sample(folder: Path, captured: Captured) -> dict[str, list[dict[str, Any]]]:
    """Write every sample tensor as a file of its own, which a loader reads without parsing."""
    import numpy as np

    (folder / SAMPLE).mkdir()
    groups = load_tensors(captured.sample_path)
    rows: dict[str, list[dict[str, Any]]] = {"inputs": [], "expected": []}
    for kind, group in (("inputs", "input"), ("expected", "expected")):
        for index, tensor in enumerate(groups.get(group, ())):
            path = folder / SAMPLE / f"{group}_{index}.npy"
            little_endian = np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<")).reshape(tensor.shape)
            np.save(path, little_endian, allow_pickle=False)
            rows[kind].append(
                {
                    "path": f"{SAMPLE}/{path.name}",
                    "dtype": str(tensor.dtype),
                    "shape": list(tensor.shape),
                    "offset": path.stat().st_size - tensor.nbytes,
                    "size_bytes": tensor.nbytes,
                    "sha256": digest_path(path),
                }
            )
    return rows


def _zip(folder: Path, path: Path) -> None:
    """Write a zip file that depends on the folder's content only; payloads stay as they are, to be read in place."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = zipfile.ZipInfo(file.relative_to(folder).as_posix(), date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            with file.open("rb") as source, archive.open(info, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target)
