"""Found: the artifacts of one model that lie in a folder of exports, and what could not be read."""

from __future__ import annotations

import json
from pathlib import Path

from cross_backend.artifact import FORMAT, Artifact
from cross_backend.backend import Rejected
from cross_backend.errors import ArtifactError, CrossBackendError, UsageError, one_line
from cross_backend.foreign_files import MAX_MANIFEST_BYTES, read_regular
from cross_backend.names.target import Target
from cross_backend.registry import full_name


def artifacts_in(folder: Path, model: str | None) -> tuple[list[Artifact], list[Rejected]]:
    """Read all artifact manifests of a folder; damaged ones are rejected, other JSON files are not looked at.

    Raises:
        UsageError: several workloads and no ``model``.
        ArtifactError: no folder, or one without artifacts.
    """
    if not folder.is_dir():
        raise ArtifactError(f"{folder} is not a folder.")
    found: list[Artifact] = []
    rejected: list[Rejected] = []
    for path in sorted(folder.glob("*.json")):
        if is_other_json(path):
            continue
        try:
            artifact = Artifact.read(path)
            full_name(Target.parse(artifact.target).name)
        except CrossBackendError as error:
            rejected.append(Rejected(path.name, one_line(error)))
            continue
        if model is None or artifact.workload == model:
            found.append(artifact)
    workloads = sorted({artifact.workload for artifact in found})
    if len(workloads) > 1:
        raise UsageError(f"{folder} holds several models; say which: model={' | '.join(map(repr, workloads))}.")
    if not found and not rejected:
        wanted = f" of {model!r}" if model else ""
        raise ArtifactError(
            f"{folder} holds no artifacts{wanted}; write some with 'cross-backend export --output-dir {folder}'."
        )
    return found, rejected


def is_other_json(path: Path) -> bool:
    """Whether a JSON file is something else than an artifact's manifest; a damaged one counts as a manifest."""
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            return True
        row = json.loads(read_regular(path))
    except (ValueError, OSError, ArtifactError, RecursionError):
        return False
    return not isinstance(row, dict) or row.get("format") != FORMAT
