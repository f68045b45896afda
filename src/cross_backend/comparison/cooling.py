"""Cooling: between the rounds of a launch, a phone that throttles waits until it is as cool as at the start."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cross_backend.comparison.blocks import ROUNDS
from cross_backend.comparison.contestant import Contestant
from cross_backend.comparison.site import Site
from cross_backend.places.condition import THERMAL, Condition, changes

PAUSE_S = 60.0
"""Longest pause before one round."""
PAUSES_S = 300.0
"""Longest of all pauses of a launch."""
LOOK_S = 2.0
"""Between two looks at the phone in a pause."""
ALL_THROTTLED = "throttled in every round"

Show = Callable[[str], None]
"""Called with what is being done."""


class Cooling:
    """Watches a site through one launch; does nothing where the site reports no condition."""

    def __init__(self, site: Site, show: Show) -> None:
        self._site, self._show, self._left_s = site, show, PAUSES_S
        self.paused_s = 0.0
        self.throttled: set[int] = set()
        """Rounds during which the system slowed the processor down."""
        self._worst = 0
        self._start: Condition | None = None
        self._now: Condition | None = None

    def begin(self) -> None:
        """Wait until the phone does not throttle, and take its condition as that of the start."""
        self._now = self._site.condition()
        if self._now is not None:
            self._wait(Condition(thermal_status=0))
        self._start = self._now

    def pause(self) -> None:
        """Wait until the phone is as cool as at the start; call it before a round."""
        if self._start is not None:
            self._wait(self._start)

    def note(self, turn: int) -> None:
        """Look whether a round was throttled, at its beginning or its end; call it after a round."""
        if self._start is None or self._now is None:
            return
        before, self._now = self._now, self._site.condition() or Condition()
        hot = [one for one in (before, self._now) if one.is_throttled(self._start)]
        if hot:
            self.throttled.add(turn)
            self._worst = max(self._worst, *(one.thermal_status or 0 for one in hot))

    def finish(self, contestants: Sequence[Contestant], *, skip: bool) -> tuple[str, ...]:
        """Return what a reader must know of the launch; empty the rounds that were throttled where they are skipped."""
        for contestant in contestants if skip and self.throttled else ():
            before = any(contestant.rounds)
            contestant.rounds = [
                () if turn in self.throttled else calls for turn, calls in enumerate(contestant.rounds)
            ]
            if before and not any(contestant.rounds):
                contestant.result = replace(contestant.result, unranked=contestant.result.unranked or ALL_THROTTLED)
        return self._warnings(skipped=skip)

    def _warnings(self, *, skipped: bool) -> tuple[str, ...]:
        if self._start is None or self._now is None:
            return ()
        found = []
        if self.throttled:
            status = f" (thermal status {self._worst}, {THERMAL[self._worst]})" if self._worst else ""
            outcome = "these rounds do not count" if skipped else "--skip-throttled leaves these rounds out"
            found.append(f"heat: the device throttled in {len(self.throttled)} of {ROUNDS} rounds{status}; {outcome}")
        if self.paused_s >= 1:
            found.append(f"heat: pauses of {self.paused_s:.0f} s in all let the device cool")
        return (*found, *changes(self._start, self._now))

    def _wait(self, wanted: Condition) -> None:
        began = time.monotonic()
        limit_s = min(PAUSE_S, self._left_s)
        while self._now is not None and self._now.is_worse(wanted) and (s := time.monotonic() - began) < limit_s:
            self._show(f"let the device cool, {s:.0f} of {limit_s:.0f} s at most")
            time.sleep(LOOK_S)
            self._now = self._site.condition() or Condition()
        spent_s = time.monotonic() - began
        self._left_s -= spent_s
        self.paused_s += spent_s
