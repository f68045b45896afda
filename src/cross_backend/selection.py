"""Selection: rank what was measured, load one artifact, or open the first of many that works and keep every reason."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cross_backend.artifact import FORMAT, Artifact
from cross_backend.backend import Rejected, Session
from cross_backend.errors import ArtifactError, CrossBackendError, LoadError, UnavailableError, UsageError, one_line
from cross_backend.measure.statistics import RESOLUTION, can_tell_apart
from cross_backend.platforms import find_platform
from cross_backend.records import Measurement
from cross_backend.registry import Resolved, full_name, missing_here, resolve
from cross_backend.target import Target

logger = logging.getLogger(__name__)


def rank(measured: Mapping[int, Measurement], medians: Mapping[int, float], floor: float | None) -> dict[int, int]:
    """Rank by median; a target that cannot be told apart from the fastest of a group shares the group's rank.

    Args:
        measured: key → interleaved samples.
        medians: key → median, any unit.
        floor: noise floor; the smallest believable one where it was not measured.
    """
    ranks: dict[int, int] = {}
    leader: int | None = None
    for place, key in enumerate(sorted(measured, key=lambda k: medians[k]), start=1):
        if leader is None or can_tell_apart(measured[key], measured[leader], RESOLUTION if floor is None else floor):
            leader, ranks[key] = key, place
        else:
            ranks[key] = ranks[leader]
    return ranks


def load(artifact: Artifact | Path | str, **options: Any) -> Session:
    """Give a session for an artifact; ``with`` opens it.

    Args:
        artifact: an artifact, or the path of its payload or manifest.
        options: override load options of its target, for example ``threads=1``.

    Raises:
        ArtifactError: missing, damaged, or the payload is not what the manifest says.
        UnavailableError: its backend cannot run here.
    """
    if not isinstance(artifact, Artifact):
        artifact = Artifact.read(artifact)
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
    artifact.check()
    return resolved.backend.load(replace(artifact, target=str(resolved.target)), resolved.options)


def resolve_artifact(artifact: Artifact) -> Resolved:
    """Find an artifact's backend.

    Raises:
        ArtifactError: this version does not know the target that the manifest names.
    """
    try:
        return resolve(artifact.target)
    except UsageError as error:
        raise ArtifactError(f"{artifact.manifest_path} names a target that is not known here: {error}") from error


def load_best(folder: Path | str, platform: str | None = None, model: str | None = None) -> Session:
    """Open the first artifact in a folder that works here, in the platform's order.

    The session is open when it comes back; use it in ``with``, which closes it. Its ``rejected`` says why
    the candidates before it were passed over.

    Args:
        folder: what ``cross-backend export`` wrote.
        platform: a platform's name; the one this process runs on where None.
        model: workload name, needed where the folder holds several.

    Raises:
        UsageError: several workloads and no ``model``, or an unknown platform.
        LoadError: nothing works; the text holds every reason.
    """
    candidates, rejected = in_order(Path(folder), platform, model)
    for artifact in candidates:
        try:
            session = load(artifact).__enter__()
        except (CrossBackendError, OSError) as error:
            rejected.append(Rejected(artifact.target, one_line(error)))
            logger.warning("%s passed over: %s", artifact.target, one_line(error))
            continue
        session.rejected = tuple(rejected)
        return session
    reasons = "; ".join(f"{row.target}: {row.reason}" for row in rejected)
    raise LoadError(f"nothing in {folder} works here. {reasons}")


def in_order(folder: Path, platform: str | None, model: str | None) -> tuple[list[Artifact], list[Rejected]]:
    """Read a folder's artifacts of one model in a platform's order, and what could not be read.

    Raises:
        UsageError, ArtifactError: as :func:`load_best`.
    """
    order = find_platform(platform).backends
    candidates, rejected = _candidates(folder, model)
    return sorted(candidates, key=lambda artifact: (_place(artifact, order), artifact.target)), rejected


def _is_other_json(path: Path) -> bool:
    try:
        row = json.loads(path.read_bytes())
    except (ValueError, OSError):
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
        if _is_other_json(path):
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
