"""Watch: what is told while a study runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cross_backend.exporting.export import Observe, ignore
from cross_backend.records import Panel, PanelKey


def _silent(*_told: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class ClassProgress:
    """How far a class of machines is, and what its panels wait for."""

    name: str
    machines: int
    """How many take part now."""
    finished: int
    """Panels that need nothing more."""
    asked: int
    """Panels in all."""
    unprepared: int = 0
    """Panels that wait until their workload is captured and lowered."""
    waiting: int = 0
    """Panels that wait for a machine."""
    left_s: float | None = None
    """Seconds until all are finished; None where that is not known."""

    def __str__(self) -> str:
        """Return it in a line."""
        machines = f"{self.machines} machine{'s' if self.machines != 1 else ''}" if self.machines else "no machine"
        parts = [f"{self.finished} of {self.asked} panels", machines]
        parts += [f"{self.unprepared} wait for lowering"] if self.unprepared else []
        parts += [f"{self.waiting} wait for a machine"] if self.waiting else []
        return f"class {self.name}: {', '.join(parts)}"


@dataclass(frozen=True)
class Watch:
    """What is told while a study runs."""

    begin: Callable[[Sequence[int], int], None] = _silent
    """Called with the indices of the panels that are left to do, class by class, and how many classes there are."""
    progress: Callable[[str, float], None] = _silent
    """Called with (what is being done, share of the panel that is done), where one panel runs at a time."""
    observe: Observe = ignore
    stored: Callable[[PanelKey, str], None] = _silent
    """Called with what is on the disk now and survives everything: ``launch 2``, the measurements of a target."""
    panel: Callable[[Panel], None] = _silent
    """Called with every panel that was finished."""
    machine: Callable[[str, str, float | None], None] = _silent
    """Called with (machine, what it does, share of that that is done), where several work."""
    classes: Callable[[Sequence[ClassProgress]], None] = _silent
    """Called every few seconds with how far each class of machines is."""
    note: Callable[[str], None] = _silent
    """Called with what a user should know: a machine that was lost, or set aside."""
