"""Selection: load one artifact, and put several into fallback order (docs/selection.md)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cross_backend.artifact import FORMAT, Artifact
from cross_backend.backend import Rejected, Session
from cross_backend.bundle import find_artifact, is_bundle, open_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, CrossBackendError, UnavailableError, UsageError, one_line
from cross_backend.foreign_files import MAX_MANIFEST_BYTES, read_regular
from cross_backend.platforms import find_platform
from cross_backend.registry import Resolved, full_name, missing_here, resolve
from cross_backend.remembered import Measured, Memory
from cross_backend.target import Target
from cross_backend.trust import keep, require


def load(artifact: Artifact | Path | str, *, trust: bool = False, **options: Any) -> Session:
    """Return a session for an artifact; ``with`` opens it.

    Args:
        artifact: an artifact, or the path of its payload or manifest.
        trust: open it although it holds code that was not made on this machine; remembered by its digest.
        options: override load options of its target, for example ``threads=1``.

    Raises:
        ArtifactError: missing, damaged, or the payload is not what the manifest says.
        UntrustedError: it holds code from elsewhere.
        UnavailableError: its backend cannot run here.
    """
    if not isinstance(artifact, Artifact):
        artifact = find_artifact(Path(artifact))
    made = resolve_artifact(artifact)
    wanted = {**made.target.options, **{key: str(value) for key, value in options.items()}}
    resolved = resolve(Target(made.target.name, wanted))
    if resolved.lowering != made.lowering:
        raise UsageError(
            f"{artifact.name} was lowered as {artifact.target}; options of lowering cannot change at load."
        )
    missing = missing_here(resolved.backend)
    if missing is not None and missing.run is not None:
        raise UnavailableError(f"{resolved.backend.name} {missing.run.reason}", missing.run.remedy)
    if resolved.python != sys.executable:
        raise UnavailableError(
            f"{resolved.backend.name} runs under the interpreter of its toolchain, not in this process",
            f"cross-backend run {artifact.payload_path}",
        )
    artifact.check()
    check_code(artifact, resolved, Cache(), trust=trust)
    return resolved.backend.load(replace(artifact, target=str(resolved.target)), resolved.options)


def check_code(artifact: Artifact, resolved: Resolved, cache: Cache, *, trust: bool = False) -> None:
    """Refuse a payload that holds code from elsewhere, or trust it from now on.

    Raises:
        UntrustedError: as it says.
    """
    code = resolved.backend.code_in(artifact)
    if code is not None:
        if trust:
            keep(cache, artifact.payload_path)
        require(cache, artifact.payload_path, code)


def resolve_artifact(artifact: Artifact) -> Resolved:
    """Find an artifact's backend.

    Raises:
        ArtifactError: this version does not know the target that the manifest names.
    """
    try:
        return resolve(artifact.target)
    except UsageError as error:
        raise ArtifactError(f"{artifact.manifest_path} names a target that is not known here: {error}") from error


def in_order(
    path: Path, platform: str | None, model: str | None, cache: Cache
) -> tuple[list[Artifact], list[Rejected]]:
    """Read the artifacts of one model in fallback order, and what could not be read.

    Args:
        path: a bundle (folder or zip file), or a folder that ``cross-backend export`` wrote.
        platform: whose order; this platform's where None.
        model: workload name, needed where a folder holds several.
        cache: where zip files are unpacked, and where measured results are remembered.

    Raises:
        UsageError: several workloads and no ``model``, or an unknown platform.
        ArtifactError: no bundle, or a folder without artifacts.
    """
    chosen = find_platform(platform)
    rejected: list[Rejected] = []
    if is_bundle(path):
        bundle = open_bundle(path, cache)
        if model not in {None, bundle.model}:
            raise ArtifactError(f"{path} is a bundle of {bundle.model}, not of {model}.")
        candidates = bundle.ordered(chosen.name)
        if not candidates:
            raise ArtifactError(f"{path} holds no artifact for {chosen.name}.")
    else:
        found, rejected = _candidates(path, model)
        candidates = sorted(found, key=lambda artifact: (_place(artifact, chosen.backends), artifact.target))
    if not candidates:
        return [], rejected
    return measured_first(candidates, Memory(cache).measured(candidates[0].program)), rejected


def measured_first(candidates: Sequence[Artifact], measured: Mapping[str, Measured]) -> list[Artifact]:
    """Sort what was measured together on this machine by its rank, within the places that it holds already."""
    known = [artifact for artifact in candidates if artifact.target in measured]
    ranked = iter(sorted(known, key=lambda artifact: measured[artifact.target].rank))
    return [next(ranked) if artifact.target in measured else artifact for artifact in candidates]


def is_other_json(path: Path) -> bool:
    """Whether a JSON file is something else than an artifact's manifest; a damaged one counts as a manifest."""
    try:
        if path.stat().st_size > MAX_MANIFEST_BYTES:
            return True
        row = json.loads(read_regular(path))
    except (ValueError, OSError, ArtifactError, RecursionError):
        return False
    return not isinstance(row, dict) or row.get("format") != FORMAT


def _place(artifact: Artifact, order: Sequence[str]) -> int:
    name = Target.parse(artifact.target).name
    return order.index(name) if name in order else len(order)


def _candidates(folder: Path, model: str | None) -> tuple[list[Artifact], list[Rejected]]:
    """Read all artifact manifests of a folder; damaged ones are rejected, other JSON files are not looked at."""
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
