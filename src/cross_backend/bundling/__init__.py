"""Bundle: what is shipped: artifacts of one program in fallback order, sample, loaders (format: docs/bundle.md)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from cross_backend.artifact import Artifact, digest_path
from cross_backend.bundling.archive import unpack
from cross_backend.bundling.evidence import Evidence, find_evidence
from cross_backend.bundling.manifest import MANIFEST, Bundle
from cross_backend.bundling.write import write_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError

__all__ = [
    "Bundle",
    "Evidence",
    "find_artifact",
    "find_evidence",
    "is_bundle",
    "is_payload",
    "open_bundle",
    "write_bundle",
]

KIND = "bundles"


def is_payload(folder: Path) -> bool:
    """Whether a folder is one artifact's payload: its manifest lies beside it, or a bundle around it names it."""
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
    """Whether a path looks like a bundle: a folder with ``manifest.json``, or a zip file."""
    return (path / MANIFEST).is_file() if path.is_dir() else path.suffix == ".zip"


def open_bundle(path: Path, cache: Cache) -> Bundle:
    """Read a bundle: a folder, or a zip file, which is unpacked into the cache under its digest.

    Raises:
        ArtifactError: missing, damaged, or of a newer format version.
    """
    if path.is_dir():
        return Bundle.read(path)
    key = digest_path(path)[:32]
    folder = cache.find(KIND, key)
    if folder is not None:
        with contextlib.suppress(ArtifactError):
            return Bundle.read(folder)
        cache.drop(KIND, key)
    with cache.scratch() as scratch:
        try:
            unpack(path, scratch)
            Bundle.read(scratch)
        except ArtifactError as error:  # the scratch folder is gone when its name is read
            raise ArtifactError(str(error).replace(str(scratch), str(path))) from error
        return Bundle.read(cache.publish(scratch, KIND, key))
