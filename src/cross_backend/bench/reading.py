"""Reading: what is read of an open artifact, where it is open."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Generic

from cross_backend.errors import RunError, failing_as
from cross_backend.worker.question import Answer, Answering, Question

if TYPE_CHECKING:
    from cross_backend.bench.open_artifact import OpenArtifact


class Reading(Question[Answer], Generic[Answer]):
    """A frozen dataclass whose fields are the settings."""

    @abstractmethod
    def read(self, artifact: OpenArtifact) -> Answer:
        """Return what is found; runs where the artifact is open."""

    def answer(self, process: Answering) -> Answer:
        """Read what the process has open.

        Raises:
            RunError: nothing is, or the runtime fails.
        """
        with failing_as(RunError, "it failed while it was measured"):
            return self.read(process.held())
