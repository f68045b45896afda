"""What a study gave, on each machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cross_backend.machine import Machine
from cross_backend.records.panel import Panel
from cross_backend.records.shown import report_of


@dataclass(frozen=True)
class StudyPart:
    """What is stored of a study on one machine, or on machines that are taken for each other."""

    place: str
    """The machine or class, as the user named it."""
    study: int
    """Number in the store."""
    machine: Machine
    versions: Mapping[str, str]
    """Distribution → version, of what took part there."""
    started: str
    """Date and time, ISO 8601 with its offset."""
    finished: bool
    """Whether all panels are there."""
    panels: int
    """How many need nothing more."""
    asked: int
    """How many the study has."""

    def to_json(self) -> dict[str, Any]:
        """Return its row of the JSON document."""
        return {**vars(self), "machine": self.machine.to_json(), "versions": dict(self.versions)}


@dataclass(frozen=True)
class StudyResults:
    """What a study gave, finished or not."""

    name: str
    panels: tuple[Panel, ...]
    """In the order of the study; those that were not begun are absent."""
    machine: Machine
    versions: Mapping[str, str]
    """Distribution → version, of what took part."""
    settings: Mapping[str, Any]
    """How it was measured."""
    started: str
    """Date and time, ISO 8601 with its offset."""
    finished: bool = True
    """Whether all panels are here."""
    parts: tuple[StudyPart, ...] = ()
    """Of each machine that measured; empty where nothing is stored."""

    @property
    def places(self) -> list[str]:
        """The machines and classes that have panels, in their order."""
        return list(dict.fromkeys(panel.place for panel in self.panels))

    def __str__(self) -> str:
        """Return the tables that a terminal shows."""
        return str(report_of("printed").text(self))

    def _repr_html_(self) -> str:
        """Return the tables that a notebook shows."""
        return str(report_of("notebook").study_html(self))
