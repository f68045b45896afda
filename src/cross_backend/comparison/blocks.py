"""Blocks: how many calls of a target are timed in each round of a launch."""

from __future__ import annotations

from cross_backend.comparison.settings import Settings
from cross_backend.measure.paired import MIN_ROUNDS

ROUNDS = 30
"""Rounds of one launch, of which a slow target takes part in six at least. Under load a round's ratio scatters by a
quarter: with ten rounds a launch, 14 launches did not find 5 %; with thirty they found 3 %
(docs/benchmarks/measurement.md)."""
_SPREAD = sorted(range(ROUNDS), key=lambda turn: f"{turn:b}".zfill(ROUNDS.bit_length())[::-1])
"""Turns in an order of which every beginning is spread over the whole launch: by reversed bits (van der Corput)."""


def plan_blocks(estimate_ms: float, settings: Settings) -> list[int]:
    """Return the timed calls of each round: those of one launch, fewer where the time box is too short for them.

    Slow targets do not take part in every round. Those of two targets are nested, so that the one that takes part in
    fewer shares all of its rounds with the other.
    """
    affordable = int(settings.launch_s * 1000 / max(estimate_ms, 1e-6))
    runs = min(settings.launch_runs, max(affordable, MIN_ROUNDS))
    blocks = [runs // ROUNDS] * ROUNDS
    for turn in _SPREAD[: runs % ROUNDS]:
        blocks[turn] += 1
    return blocks
