"""Launcher: takes panels, and keeps their launches as they finish; one file each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from cross_backend.records import PanelKey
from cross_backend.study.books import Book
from cross_backend.study.spec import PanelSpec, StudySpec
from cross_backend.study.watch import Watch


@dataclass(frozen=True)
class PanelJob:
    """A panel to be measured on one class of machines, and the book that keeps its results."""

    book: Book
    spec: PanelSpec

    @property
    def key(self) -> PanelKey:
        """Under which it is stored."""
        return self.spec.key


class Launcher(ABC):
    """Who measures panels."""

    @abstractmethod
    def studies(self, study: StudySpec) -> tuple[StudySpec, ...]:
        """Return the study of each class of machines.

        Raises:
            UsageError: a class has no machine.
        """

    @abstractmethod
    def claim(self, book: Book) -> None:
        """Claim what is stored of a class, so that the panels that are finished are known."""

    @abstractmethod
    def launch(self, jobs: Sequence[PanelJob], watch: Watch) -> Sequence[str]:
        """Measure panels; whatever is whole is in its book before more is measured of the panel.

        Returns:
            Why panels are missing, a line each; empty where all are there.

        Raises:
            KeyboardInterrupt: it was stopped; the same call goes on.
            PlaceError: the machines were lost; likewise.
            CrossBackendError: nothing more can be measured, or stored.
        """
