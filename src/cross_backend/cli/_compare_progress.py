"""Progress of a comparison: launch, round, the time left, and a table of what is known until now."""

from __future__ import annotations

import time
from collections.abc import Sequence

from cross_backend.comparison.blocks import ROUNDS
from cross_backend.comparison.contestant import Standing
from cross_backend.comparison.settings import Settings
from cross_backend.report import figures
from cross_backend.report.progress import Show
from cross_backend.report.tables import NONE, Table
from cross_backend.study.estimate import Seconds

LEAST_ROUNDS = 3
"""Rounds of the first launch from which on they say how long the rest takes."""


class Watched:
    """What a terminal shows of one comparison."""

    def __init__(self, show: Show, name: str, settings: Settings) -> None:
        self._show, self._name, self._settings = show, name, settings
        self._begun: list[float] = []
        """When each launch was begun, seconds."""
        self._rounds_s = 0.0
        """When the rounds of the first launch were begun."""

    def progress(self, doing: str, done: int, total: int) -> None:
        """Show a step and the time left."""
        steps = total // self._settings.most_launches
        launch, step = divmod(min(done, total - 1), steps)
        now = time.monotonic()
        if launch >= len(self._begun):
            self._begun.append(now)
        left = self._left(launch, step - (steps - ROUNDS), now)
        self._show("measure", f"{self._name}: {doing}", done / total, "" if left is None else str(left))

    def _left(self, launch: int, turn: int, now: float) -> Seconds | None:
        """Return how long the rest may take; None while nothing says it."""
        elapsed, settings = now - self._begun[-1], self._settings
        if launch == 0:
            if turn <= 0:
                self._rounds_s = now
            if turn < LEAST_ROUNDS:
                return None
            this = (now - self._rounds_s) / turn * (ROUNDS - turn)
        else:
            this = max(self._begun[-1] - self._begun[-2] - elapsed, 0.0)
        if settings.deciding:
            return Seconds(this, max(this, settings.box_s - (now - self._begun[0])))
        fewest = max((settings.launches or 1) - launch - 1, 0)
        return Seconds(*(this + more * (elapsed + this) for more in (fewest, settings.most_launches - launch - 1)))

    def look(self, standings: Sequence[Standing]) -> None:
        """Show what is known of each target, the fastest first."""
        ordered = sorted(standings, key=lambda one: (one.median_ms is None, one.median_ms or 0.0))
        rows = tuple(
            (one.title, one.state, NONE if one.median_ms is None else figures.duration(one.median_ms), f"{one.calls:,}")
            for one in ordered
        )
        self._show.table(Table("", ("Backend", "state", "median until now", "calls"), rows, (2, 3)))
