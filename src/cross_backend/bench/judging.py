"""Judging: an open artifact is held to further inputs that an earlier search found, beside its sample's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cross_backend.bench.open_artifact import OpenArtifact
from cross_backend.bench.reading import Reading
from cross_backend.bench.verification import is_judged, outputs_on
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import compare_further, says_nothing
from cross_backend.verify.further import PROBE, further_of


@dataclass(frozen=True)
class JudgeOn(Reading[str]):
    """Run on the probes of a tensor file, and compare with their references."""

    probes: Path
    precision: str
    """Of the target."""

    def read(self, artifact: OpenArtifact) -> str:
        """Return why the outputs for the first wrong one are wrong; an empty text where all are right."""
        reason = None
        for probe in further_of(PROBE, load_tensors(self.probes)):
            specs = artifact.session.inputs
            if is_judged(specs, artifact.sample, probe, self.precision) and not says_nothing(probe, self.precision):
                found = outputs_on(artifact, probe)
                reason = reason or compare_further(artifact.sample, probe, found, self.precision)
        artifact.bind(artifact.sample)
        return reason or ""
