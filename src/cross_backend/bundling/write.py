"""Writing a bundle: whole, in the place of an older one of the same model."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cross_backend._version import __version__
from cross_backend.artifact import Artifact, digest_path
from cross_backend.bundling.archive import ZIP_DAMAGE, pack
from cross_backend.bundling.evidence import Evidence
from cross_backend.bundling.manifest import FORMAT, FURTHER, LABELS, MANIFEST, SAMPLE, SAMPLE_GROUPS, TOKENIZER, VERSION
from cross_backend.errors import ArtifactError, UsageError
from cross_backend.foreign_files import MAX_MANIFEST_BYTES, open_regular, open_zip
from cross_backend.loaders import write_loaders
from cross_backend.remembered import Measured
from cross_backend.serialization import to_json
from cross_backend.tensors import load_tensors

if TYPE_CHECKING:
    from cross_backend.program.captured import Captured


def write_bundle(
    captured: Captured,
    artifacts: Sequence[tuple[Artifact, str, str, Mapping[str, float]]],
    orders: Mapping[str, Sequence[str]],
    measured: Mapping[str, Measured],
    parent: Path,
    *,
    evidence: Sequence[Evidence] = (),
    zipped: bool = False,
    ship_inputs: bool = False,
    tokenizer: str | None = None,
) -> Path:
    """Write ``parent/<model>`` (or ``parent/<model>.zip``) whole, in the place of an older bundle of that model.

    Args:
        captured: the program, its sample and labels.
        artifacts: (artifact, public name, title for people, what ``verify.tolerances_of`` gave), in fallback order.
        orders: platform → public names in that platform's order.
        measured: public name → what was measured on this machine.
        parent: folder that exists.
        evidence: what was measured on machines of the platforms, the best of each platform first.
        zipped: write one file instead of a folder.
        ship_inputs: write the user's own inputs beside the sample.
        tokenizer: content of the tokenizer's file that is shipped; none where None.

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
        rows = _write_payloads(folder, artifacts, measured)
        _fill(folder, captured, rows, orders, evidence, ship_inputs=ship_inputs, tokenizer=tokenizer)
        if zipped:
            pack(folder, scratch / place.name)
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
    """Whether what lies there is a bundle, of any version, or an empty folder."""
    if place.is_dir() and not any(place.iterdir()):
        return True
    with contextlib.suppress(ArtifactError, *ZIP_DAMAGE), contextlib.ExitStack() as stack:
        if place.is_dir():
            file: IO[bytes] = stack.enter_context(open_regular(place / MANIFEST))
        else:
            archive = stack.enter_context(open_zip(place))
            file = stack.enter_context(archive.open(MANIFEST))
        return bool(json.loads(file.read(MAX_MANIFEST_BYTES))["format"] == FORMAT)
    return False


def _write_payloads(
    folder: Path, artifacts: Sequence[tuple[Artifact, str, str, Mapping[str, float]]], measured: Mapping[str, Measured]
) -> list[dict[str, Any]]:
    """Copy the payloads, and return what the manifest says of each."""
    rows = []
    for artifact, name, title, tolerances in artifacts:
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
                **tolerances,
                "placement": artifact.placement.to_json(),
                "estimate": dict(artifact.estimate),
                "versions": dict(artifact.versions),
                "export_s": artifact.export_s,
                "measured": dataclasses.asdict(result) if result else None,
            }
        )
    return rows


def _fill(
    folder: Path,
    captured: Captured,
    rows: Sequence[Mapping[str, Any]],
    orders: Mapping[str, Sequence[str]],
    evidence: Sequence[Evidence],
    *,
    ship_inputs: bool,
    tokenizer: str | None,
) -> None:
    labels, structure = None, captured.structure
    if captured.labels_path is not None:
        shutil.copyfile(captured.labels_path, folder / LABELS)
        labels = {"path": LABELS, "sha256": digest_path(folder / LABELS)}
    words = {}
    if tokenizer is not None:
        (folder / TOKENIZER).write_text(tokenizer)
        words = {"tokenizer": {"path": TOKENIZER, "sha256": digest_path(folder / TOKENIZER)}}
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "model": captured.workload,
        "program": captured.digest,
        "made_by": {"cross-backend": __version__},
        "inputs": to_json(captured.inputs),
        "outputs": to_json(captured.outputs),
        **({"state": to_json(captured.state)} if captured.state else {}),
        "structure": structure.to_json() if structure else None,
        "media": _media(captured),
        "sample": _write_sample(folder, captured, ship_inputs=ship_inputs),
        "labels": labels,
        **words,
        "artifacts": rows,
        "orders": {platform: list(order) for platform, order in orders.items()},
        "evidence": [dataclasses.asdict(one) for one in evidence],
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, allow_nan=False) + "\n")
    write_loaders(captured.workload, list(orders), folder / "loaders")


def _media(captured: Captured) -> Mapping[str, Any] | None:
    """Return what the inputs are made of; labels are null, for they stand in a file of their own."""
    media, path = captured.media, captured.labels_path
    if media is None or path is None or media.get("labels") != path.read_text().splitlines():
        return media
    return {**media, "labels": None}


def _write_sample(folder: Path, captured: Captured, *, ship_inputs: bool) -> dict[str, list[dict[str, Any]]]:
    """Write every sample tensor as a file of its own, which a loader reads without parsing."""
    (folder / SAMPLE).mkdir()
    groups = load_tensors(captured.sample_path)
    rows = {
        kind: [_write_tensor(folder, f"{group}_{index}", tensor) for index, tensor in enumerate(groups.get(group, ()))]
        for kind, group in SAMPLE_GROUPS.items()
    }
    for kind, prefix in FURTHER.items():
        found = {group: tensors for group, tensors in groups.items() if group.startswith(prefix)}
        if found and (ship_inputs or kind != "own"):
            rows[kind] = [
                _write_tensor(folder, f"{group}_{index}", tensor)
                for group, tensors in found.items()
                for index, tensor in enumerate(tensors)
            ]
    return rows


def _write_tensor(folder: Path, name: str, tensor: Any) -> dict[str, Any]:
    import numpy as np

    path = folder / SAMPLE / f"{name}.npy"
    little_endian = np.ascontiguousarray(tensor, tensor.dtype.newbyteorder("<")).reshape(tensor.shape)
    np.save(path, little_endian, allow_pickle=False)
    return {
        "path": f"{SAMPLE}/{path.name}",
        "dtype": str(tensor.dtype),
        "shape": list(tensor.shape),
        "offset": path.stat().st_size - tensor.nbytes,
        "size_bytes": tensor.nbytes,
        "sha256": digest_path(path),
    }
