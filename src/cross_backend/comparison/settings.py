"""Settings: how one comparison is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cross_backend.measure.paired import MIN_ROUNDS

MOST_DECIDING = 10
"""Launches that share runs and time box where nobody says how many there are. Where processes differ by 1 to 2 %, four
to six find 8 %; what is far apart is started once or twice."""
BOX_S = 60.0
"""Time box of one model's launches, where nobody says how many there are."""


@dataclass(frozen=True)
class Settings:
    """How to measure.

    With neither ``launches`` nor ``margin``, launching goes on until every place is decided (:data:`MOST_DECIDING`
    times and ``box_s`` at most), and what is far apart from its neighbours is not started again.
    """

    num_runs: int = 1000
    """Most timed calls of each target."""
    seconds: float = 5.0
    """Most seconds of timed calls of each target; at least six calls are timed all the same."""
    threads: int = 1
    """CPU threads of each target that does not name its own."""
    timeout_s: float = 600.0
    """Longest answer of a worker: opening, one call, one block."""
    seed: int = 0
    """Of the visiting order."""
    launches: int | None = None
    """Process launches of each target; with a margin the fewest (one where None)."""
    max_launches: int = 15
    """How often at most, where ``margin`` asks for more precision than the first launches gave."""
    margin: float | None = None
    """Half-width of the ratios to the fastest at which launching stops (0.01 is 1 %); None: ``launches``, no more."""
    min_on_device: float = 0.9
    """Share of the work that must run on the device that was asked for; below it there is no rank."""
    memory_limit_bytes: int | None = None
    """Memory that a worker may use; it is stopped above."""
    found_from: float = 0.08
    """With neither launches nor a margin: relative difference that is to be detected with 95 % power between targets
    that are not far apart; then their places are decided."""

    box_s: float = BOX_S
    """With neither: wall time of all launches together from which on no further one begins."""
    together: int | None = None
    """Most targets that are open at once: a launch of more is taken in several parts, which share their fastest target;
    all where None."""
    skip_throttled: bool = False
    """Whether rounds in which a phone throttled are left out."""
    platform: str | None = None
    """Name of the platform that the targets are for, see ``platforms``; None for this machine's."""

    @property
    def deciding(self) -> bool:
        """Whether launching goes on until every place is decided."""
        return self.launches is None and self.margin is None

    @property
    def most_launches(self) -> int:
        """How many launches share the time box."""
        if self.deciding:
            return max(1, min(MOST_DECIDING, self.num_runs // MIN_ROUNDS))
        fewest = self.launches or 1
        return fewest if self.margin is None else max(fewest, self.max_launches)

    @property
    def launch_s(self) -> float:
        """Most seconds of timed calls of each target in one launch."""
        return self.seconds / self.most_launches

    @property
    def launch_runs(self) -> int:
        """Most timed calls of each target in one launch."""
        return math.ceil(self.num_runs / self.most_launches)
