"""Instrument: what is measured of an open artifact, where it is open."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, TypeVar

from cross_backend.bench.open_artifact import OpenArtifact, failing_as, opened
from cross_backend.errors import RunError
from cross_backend.worker.question import Answering, Question

Answer = TypeVar("Answer")


class Instrument(Question[Answer], Generic[Answer]):
    """A frozen dataclass whose fields are the settings."""

    @abstractmethod
    def measure(self, artifact: OpenArtifact) -> Answer:
        """Return what is found; runs where the artifact is open."""

    def answer(self, process: Answering) -> Answer:
        """Measure what the process has open."""
        artifact = opened(process)
        with failing_as(RunError, "it failed while it was measured"):
            return self.measure(artifact)
