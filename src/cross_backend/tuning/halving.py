"""Halving: who stays in a race of many targets: the better half of each rung, and nobody who is clearly slower.

Successive halving (Jamieson & Talwalkar, *AISTATS* 2016) over interleaved launches. In the first rung every candidate
has a short launch, in heats of a few, each with the fastest so far. In each further rung those that are left get a
longer one. Whoever is clearly slower than another leaves at once, whatever its place: the rule of launches that stop
early decides (``measure.precision.clearly_apart``). Below :data:`FINALISTS`, only that rule decides.

No library: Optuna, Ray Tune and their like prune trials that run one after the other, on a figure a trial. Here trials
are measured in the same rounds, and their figures are ratios with intervals.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cross_backend.measure.paired import LogRatio, joint_confidence, log_ratio
from cross_backend.measure.precision import clearly_apart
from cross_backend.measure.ranking import Ranking
from cross_backend.measure.statistics import unpaired_ratio
from cross_backend.measurement import Interval, Measurement

FINALISTS = 3
"""From so many on, rank alone removes nobody."""
HEAT = 8
"""Most candidates that are open at once."""
FIRST_SHARE = 0.125
"""Timed calls of the first rung, as a share of those of a whole launch; each rung has twice as many, up to all."""

Key = tuple[int, int]
"""(panel, index of the target): candidates of one panel are measured in the same rounds."""


@dataclass(frozen=True)
class Rungs:
    """How much is measured."""

    launches: int = 5
    """Of each finalist."""
    is_exhaustive: bool = False
    """Whether all candidates get all of it: what a search is compared with."""
    heat: int = HEAT

    def share(self, rung: int) -> float:
        """Return the timed calls of a rung as a share of those of a whole launch."""
        return 1.0 if self.is_exhaustive else min(1.0, FIRST_SHARE * 2**rung)

    def kept(self, raced: int) -> int:
        """Return how many of so many stay at most."""
        return raced if self.is_exhaustive else max(FINALISTS, math.ceil(raced / 2))


class Standings:
    """Candidates by latency an item."""

    def __init__(self, measured: Mapping[Key, Measurement], floors: Mapping[int, float]) -> None:
        """Put them in order.

        Args:
            measured: candidate → latency of one item; those of a panel by the same rounds.
            floors: panel → noise floor, a logarithm.
        """
        self._measured, self._floors = measured, floors
        self._paired = functools.cache(lambda first, second: log_ratio(measured[first], measured[second]))
        self.order: tuple[Key, ...] = self._ordered()
        """Fastest first."""

    def _ordered(self) -> tuple[Key, ...]:
        places: dict[Key, float] = {}
        for panel in dict.fromkeys(key[0] for key in self._measured):
            mine = {key: one for key, one in self._measured.items() if key[0] == panel}
            numbered = dict(enumerate(mine))
            order = [numbered[at] for at in Ranking({at: mine[key] for at, key in numbered.items()}, None).order]
            for place, key in enumerate(order):
                ratio = self.ratio(key, order[0])
                value = mine[order[0]].median * ratio.value if ratio else mine[key].median
                # Within a panel, the interleaved order counts; a figure from other rounds may not reverse it.
                places[key] = max(value, places[order[place - 1]]) if place else value
        return tuple(sorted(places, key=places.__getitem__))

    def ratio(self, first: Key, second: Key, pairs: int = 1) -> Interval | None:
        """Return first / second with an interval that holds for so many pairs together; None where it is unknown."""
        if first == second:
            return Interval(1.0, 1.0, 1.0)
        confidence = joint_confidence(pairs)
        if first[0] != second[0]:
            return unpaired_ratio(self._measured[first], self._measured[second], confidence)
        paired: LogRatio | None = self._paired(first, second)
        return paired.at(confidence, self._floors.get(first[0], 0.0)).ratio if paired else None

    def is_slower(self, first: Key, second: Key) -> bool:
        """Whether the first is so clearly slower than the second that the search may forget it."""
        if first[0] == second[0]:
            ratio: LogRatio | None = self._paired(first, second)
            apart = clearly_apart(ratio, self._floors.get(first[0], 0.0), len(self._measured))
            return apart and ratio is not None and ratio.value > 0
        found = self.ratio(first, second, len(self._measured))
        return found is not None and found.low > 1

    def left(self, among: Sequence[Key], rungs: Rungs) -> list[Key]:
        """Return those of some candidates that go on, fastest first."""
        order = [key for key in self.order if key in set(among)]
        if rungs.is_exhaustive:
            return order
        fit = [key for place, key in enumerate(order) if not any(self.is_slower(key, one) for one in order[:place])]
        return fit[: rungs.kept(len(order))]


def race(
    candidates: Sequence[Key],
    measure: Callable[[Sequence[Key], int], None],
    standings: Callable[[], Standings],
    rungs: Rungs,
) -> list[Key]:
    """Measure rung after rung until one is left, or those that are left have all their launches.

    Args:
        candidates: who takes part.
        measure: launches candidates of one panel, the first of them first; told the rung.
        standings: returns what is known of those that were measured and are within the bounds.
        rungs: how much is measured.

    Returns:
        Who was left, fastest first.
    """
    left = list(candidates)
    for rung in range(rungs.launches):
        for panel in dict.fromkeys(key[0] for key in left):
            for heat in _heats([key for key in left if key[0] == panel], rungs.heat):
                anchor = next((key for key in standings().order if key[0] == panel), None)
                others = [key for key in heat if key != anchor]
                if others or rung:
                    measure([*([] if anchor is None else [anchor]), *others], rung)
        found = standings()
        left = found.left(left, rungs)
        if len(left) < 2 and not rungs.is_exhaustive:
            break
    return left


def _heats(keys: Sequence[Key], most: int) -> list[Sequence[Key]]:
    """Return rows of about the same length, none longer than ``most``."""
    count = math.ceil(len(keys) / most)
    size = math.ceil(len(keys) / count) if count else 1
    return [keys[start : start + size] for start in range(0, len(keys), size)]
