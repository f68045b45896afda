"""Samples: raw numbers of one metric by round and process, and the intervals that are made of them."""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Measurement:
    """Raw samples of one metric, in the order they were taken."""

    metric: str
    """``latency``, ``cold_start.load``, ``memory.peak_rss``, …; the instruments in ``measure/`` say what each is."""
    unit: str
    """``ns``, ``B``, ``J``, ``W`` or ``1/s``."""
    rounds: tuple[Sequence[float], ...]
    """Samples by round, compactly (``array.array``) where there are many; the targets of a panel are measured once in
    every round."""
    launches: tuple[int, ...] = ()
    """How many of the rounds each process gave, in order; one process gave all where empty."""

    def __eq__(self, other: object) -> bool:
        """Compare the samples, whatever sequence holds them."""
        if not isinstance(other, Measurement):
            return NotImplemented
        mine, theirs = ((m.metric, m.unit, m.launches, [list(row) for row in m.rounds]) for m in (self, other))
        return mine == theirs

    def __hash__(self) -> int:
        return hash((self.metric, self.unit, self.launches, len(self.rounds)))

    @property
    def values(self) -> tuple[float, ...]:
        """All samples in order."""
        return tuple(value for row in self.rounds for value in row)

    @property
    def count(self) -> int:
        """Number of samples."""
        return sum(map(len, self.rounds))

    @functools.cached_property
    def median(self) -> float:
        """The median of all samples, NaN where there is none; worked out once."""
        if self.count < 200:
            return median_of(self.values)
        import numpy as np

        return median_of(np.concatenate([np.asarray(row) for row in self.rounds if len(row)]))

    @functools.cached_property
    def round_medians(self) -> tuple[float, ...]:
        """The median of each round, NaN where it has no sample; worked out once."""
        return tuple(median_of(row) for row in self.rounds)

    @property
    def by_launch(self) -> list[tuple[Sequence[float], ...]]:
        """The rounds of each process."""
        ends = list(itertools.accumulate(self.launches or (len(self.rounds),)))
        return [self.rounds[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    @classmethod
    def joined(cls, parts: Sequence[Measurement]) -> Measurement:
        """Put what several processes gave behind each other; all are of one metric and unit."""
        first = parts[0]
        assert all((part.metric, part.unit) == (first.metric, first.unit) for part in parts), "unlike measurements"
        launches = tuple(n for part in parts for n in (part.launches or (len(part.rounds),)))
        return cls(first.metric, first.unit, tuple(row for part in parts for row in part.rounds), launches)


@dataclass(frozen=True)
class Interval:
    """A figure and the range that holds the true one with the stated confidence."""

    value: float
    low: float
    high: float


def median_of(values: Sequence[float] | np.ndarray) -> float:
    """Return the median, NaN of nothing; long rows go through NumPy."""
    if len(values) < 200:  # below, NumPy's own calls cost more than the sorting
        return float(statistics.median(values)) if len(values) else math.nan
    import numpy as np

    return float(np.median(np.asarray(values)))
