"""Ranking: the targets of a panel in order, who differs from whom, and what is not decided yet."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping

from cross_backend.measure.paired import LogRatio, joint_confidence, log_ratio
from cross_backend.measure.precision import clearly_apart, smallest_detectable
from cross_backend.measurement import Interval, Measurement


class Ranking:
    """Targets by their ratios; one that cannot be distinguished from the fastest of a group shares the group's rank.

    Each pair is compared over the launches that both took part in, so not every target needs to be in all of them.
    """

    def __init__(self, measured: Mapping[int, Measurement], floor: float | None, asked: float = 0.08) -> None:
        """Put the targets in order.

        Args:
            measured: key → interleaved samples.
            floor: noise floor, a logarithm; None where it was not measured.
            asked: relative difference to be detected with 95 % power.
        """
        self._asked = asked
        self.measured, self._floor = measured, floor or 0.0
        self._plain = functools.cache(lambda first, second: log_ratio(measured[first], measured[second]))
        """Returns the ratio of two with an interval of its own."""
        pairs = itertools.combinations(sorted(measured), 2)
        self._confidence = joint_confidence(sum(not self._clear(*pair) for pair in pairs))
        self.order: tuple[int, ...] = tuple(sorted(measured, key=functools.cmp_to_key(self._slower)))
        """Keys, fastest first."""

    def _clear(self, first: int, second: int, by: float = 0.0) -> bool:
        return clearly_apart(self._plain(first, second), self._floor, len(self.measured), by)

    def _ratio(self, first: int, second: int) -> LogRatio | None:
        """Return the ratio of two with the interval that decides.

        All verdicts together are right in 95 %, by Holm's step-down rule (*Scand. J. Statist.* 6, 1979): pairs that
        are clearly apart are so at Bonferroni's level over all pairs or a stricter one, so the level of the rest is
        Bonferroni's over the rest.
        """
        ratio = self._plain(first, second)
        return None if ratio is None else ratio.at(self._confidence, self._floor)

    def _slower(self, first: int, second: int) -> int:
        """Return 1 where the first is slower, −1 where it is faster; by medians where they share too few rounds."""
        ratio = self._ratio(first, second)
        more = ratio.value if ratio else self.measured[first].median - self.measured[second].median
        return (more > 0) - (more < 0)

    def _compared(self) -> Iterator[tuple[int, int, LogRatio | None]]:
        """Return each target but the first with the fastest of the group before it, and their ratio."""
        leader = self.order[0] if self.order else 0
        for key in self.order[1:]:
            ratio = self._ratio(key, leader)
            yield leader, key, ratio
            leader = key if _is_slower(ratio) else leader

    @property
    def ranks(self) -> dict[int, int]:
        """Key → rank from 1; as many places are left out as targets share the rank before.

        A target that shares too few rounds with the fastest of the group before it has none. Where that is so of all
        but the first, nothing was compared, and the first has none either.
        """
        found = dict.fromkeys(self.order[:1], 1)
        for leader, key, ratio in self._compared():
            if ratio is not None:
                found[key] = len(found) + 1 if _is_slower(ratio) else found[leader]
        return found if len(found) > 1 or len(self.order) == 1 else {}

    @property
    def ratios(self) -> dict[int, Interval]:
        """Key → its latency over that of the first; without those that share too few rounds with it."""
        found = {key: Interval(1.0, 1.0, 1.0) for key in self.order[:1]}
        for key in self.order[1:]:
            ratio = self._ratio(key, self.order[0])
            if ratio is not None:
                found[key] = ratio.ratio
        return found

    def _near(self) -> Iterator[tuple[int, int, float]]:
        """Return the pairs of :meth:`_compared` that are not far apart, and the smallest difference detected of each.

        Far apart are two that differ, at the strict level, by more than the difference to be detected.
        """
        for leader, key, ratio in self._compared():
            if not self._clear(key, leader, self._asked):
                yield leader, key, math.expm1(smallest_detectable(ratio)) if ratio else math.inf

    @property
    def undecided(self) -> list[int]:
        """The targets that need a further launch, fastest first.

        The place of a target is decided where it is far apart from the fastest of the group before it, or where the
        difference that was asked for would be detected between the two with 95 % power.
        """
        wanted = {key for *pair, found in self._near() if found > self._asked for key in pair}
        return [key for key in self.order if key in wanted]

    def found_from(self, twins: tuple[Measurement, Measurement] | None) -> float | None:
        """Return the relative difference from which on all pairs that are not far apart are detected, with 95 % power.

        Where all are: of the twins, which are equal and were compared as well.
        """
        near = [found for *_, found in self._near() if math.isfinite(found)]
        ratio = log_ratio(*twins, self._confidence, self._floor) if twins and len(self.order) > 1 else None
        return max(near, default=math.expm1(smallest_detectable(ratio)) if ratio else None)


def _is_slower(ratio: LogRatio | None) -> bool:
    return ratio is not None and ratio.apart and ratio.value > 0
