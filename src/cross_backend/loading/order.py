"""Order: in which the artifacts of one model are tried: the platform's, then what was measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.backend import Rejected
from cross_backend.bundle import is_bundle, open_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError
from cross_backend.loading.found import artifacts_in
from cross_backend.platforms import find_platform
from cross_backend.remembered import Measured, Memory
from cross_backend.target import Target


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
        ArtifactError: no bundle, another model's, or a folder without artifacts.
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
        found, rejected = artifacts_in(path, model)
        candidates = sorted(found, key=lambda artifact: (_place(artifact, chosen.backends), artifact.target))
    if not candidates:
        return [], rejected
    return measured_first(candidates, Memory(cache).measured(candidates[0].program)), rejected


def measured_first(candidates: Sequence[Artifact], measured: Mapping[str, Measured]) -> list[Artifact]:
    """Sort what was measured together on this machine by its rank, within the places that it holds already."""
    known = [artifact for artifact in candidates if artifact.target in measured]
    ranked = iter(sorted(known, key=lambda artifact: measured[artifact.target].rank))
    return [next(ranked) if artifact.target in measured else artifact for artifact in candidates]


def _place(artifact: Artifact, order: Sequence[str]) -> int:
    name = Target.parse(artifact.target).name
    return order.index(name) if name in order else len(order)
