"""Studying: a study that a page began, of built-in models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cross_backend.errors import UsageError
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.web.jobs import Job, Progress
from cross_backend.workloads.table import WORKLOADS

NAME = "page"
"""What studies that pages begin are called."""
MOST_MODELS, MOST_TARGETS = 8, 16
MOST_SECONDS, MOST_LAUNCHES = 60.0, 15


@dataclass(frozen=True)
class StudyProgress(Progress):
    """How far the last study is that was begun here."""

    study: int | None = None
    """Its number, once it is stored."""


class Studying(Job[StudyProgress]):
    """Begins studies, and says how far the last one is."""

    def __init__(self, db: str | None, tell: Callable[..., None]) -> None:
        """Prepare; ``tell`` is told (``study``, facts) of each step."""
        super().__init__("cross_backend.study.telling", "study", StudyProgress(), tell)
        self._db = db

    def begin(self, models: Sequence[str], targets: Sequence[str], seconds: float, launches: int) -> StudyProgress:
        """Begin a study; it goes on where one of the same content was cut off.

        Raises:
            UsageError: a name is unknown, a number out of its range, or another study runs.
        """
        study = asked_study(models, targets, seconds, launches)
        begun = StudyProgress("running", text="starting")
        busy = "a study runs already; begin another when it is finished."
        return self._begin({"study": study.to_json(), "db": self._db}, begun, busy)


def asked_study(models: Sequence[str], targets: Sequence[str], seconds: float, launches: int) -> StudySpec:
    """Return the study that a page asks for: of built-in models only, as a request may name no file.

    Raises:
        UsageError: a name is unknown, or a number out of its range.
    """
    if not 1 <= len(models) <= MOST_MODELS or not 1 <= len(targets) <= MOST_TARGETS:
        raise UsageError(f"1 to {MOST_MODELS} models and 1 to {MOST_TARGETS} targets are wanted.")
    for model in models:
        if model not in WORKLOADS:
            raise UsageError(f"there is no built-in model {model[:40]!r}.")
    if not 0.1 <= seconds <= MOST_SECONDS or not 1 <= launches <= MOST_LAUNCHES:
        raise UsageError(f"0.1 to {MOST_SECONDS:g} seconds and 1 to {MOST_LAUNCHES} launches are wanted.")
    settings = StudySettings(seconds=seconds, launches=launches, max_launches=launches, instruments=("memory",))
    study = StudySpec(NAME, tuple(map(WorkloadSpec.find, models)), tuple(targets), settings=settings)
    study.check_names()
    return study
