"""Order: in which the artifacts of one model are tried: the platform's, a bundle's evidence, what was measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.backend import Rejected
from cross_backend.bundling import Evidence, is_bundle, open_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError
from cross_backend.loading.found import artifacts_in
from cross_backend.machine import Machine
from cross_backend.names.platforms import find_platform
from cross_backend.names.target import Target
from cross_backend.remembered import MachineRanks, Measured, Memory


@dataclass(frozen=True)
class Candidates:
    """The artifacts of one model in the order in which they are tried."""

    artifacts: list[Artifact]
    rejected: list[Rejected]
    """What could not be read."""
    order: str = ""
    """Whose order counts for what was not measured."""
    evidence: Evidence | None = None
    """The bundle's evidence that ordered them."""
    ranks: MachineRanks | None = None
    """What was measured on the machine itself."""

    def why(self, artifact: Artifact) -> str:
        """Return what gave an artifact its place, as one line."""
        own = self.ranks.targets.get(artifact.target) if self.ranks else None
        if self.ranks and own:
            rank, count = own.rank, len(self.ranks.targets)
            return f"measured rank {rank} of {count} on this machine ({own.cpu}), {self.ranks.date[:10]}"
        if self.evidence:
            row, same = self.evidence.row(artifact.name), self.evidence
            if row is not None:
                return f"measured rank {row.rank} of {same.targets} on {same}; by the bundle's evidence"
            return f"not measured; tried after what was measured on {same}"
        unknown = "not measured on this machine" if self.ranks else "no measurement of this machine"
        return f"{unknown}; the order of {self.order}"


def in_order(
    path: Path, platform: str | None, model: str | None, cache: Cache, machine: Machine | None = None
) -> Candidates:
    """Read the artifacts of one model in fallback order, and what could not be read.

    Args:
        path: a bundle (folder or zip file), or a folder that ``cross-backend export`` wrote.
        platform: whose order; this platform's where None.
        model: workload name, needed where a folder holds several.
        cache: where zip files are unpacked, and where measured results are remembered.
        machine: where they are to run; this one where None.

    Raises:
        UsageError: several workloads and no ``model``, or an unknown platform.
        ArtifactError: no bundle, another model's, or a folder without artifacts.
    """
    chosen, machine = find_platform(platform), machine or Machine.here()
    rejected: list[Rejected] = []
    evidence, order = None, chosen.name
    if is_bundle(path):
        bundle = open_bundle(path, cache)
        if model not in {None, bundle.model}:
            raise ArtifactError(f"{path} is a bundle of {bundle.model}, not of {model}.")
        evidence = bundle.fitting(chosen.name, machine.identity)
        candidates = bundle.ordered(chosen.name, machine.identity)
        order = chosen.name if chosen.name in bundle.orders else "the bundle"
        if not candidates:
            raise ArtifactError(f"{path} holds no artifact for {chosen.name}.")
    else:
        found, rejected = artifacts_in(path, model)
        candidates = sorted(found, key=lambda artifact: (_place(artifact, chosen.backends), artifact.target))
    ranks = Memory(cache, machine).ranks(candidates[0].program) if candidates else None
    if ranks is not None:
        candidates = measured_first(candidates, ranks.targets)
    return Candidates(candidates, rejected, order, evidence, ranks)


def measured_first(candidates: Sequence[Artifact], measured: Mapping[str, Measured]) -> list[Artifact]:
    """Sort what was measured together on this machine by its rank, within the places that it holds already."""
    known = [artifact for artifact in candidates if artifact.target in measured]
    ranked = iter(sorted(known, key=lambda artifact: measured[artifact.target].rank))
    return [next(ranked) if artifact.target in measured else artifact for artifact in candidates]


def _place(artifact: Artifact, order: Sequence[str]) -> int:
    name = Target.parse(artifact.target).name
    return order.index(name) if name in order else len(order)
