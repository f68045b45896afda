"""Percentiles, each with an interval, or with the number of samples that it needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cross_backend.measure.quantiles import CONFIDENCE, ranks_around
from cross_backend.measure.statistics import median_estimate
from cross_backend.measurement import Measurement

if TYPE_CHECKING:
    import numpy as np

SHOWN = (50.0, 90.0, 99.0, 99.9)
SEEN = 0.99
"""A percentile is shown where, with this probability, at least one of the samples lies beyond it: from 44 independent
samples on for P90, 459 for P99 and 4,603 for P99.9."""


@dataclass(frozen=True)
class Percentile:
    """A percentile of a measurement in its own unit; without figures where there are too few samples."""

    percent: float
    value: float | None
    low: float | None
    """Lower end of the 95 % interval."""
    high: float | None
    needs: int | None = None
    """Samples that it takes in all, where there are too few."""


def samples_needed(percent: float) -> int:
    """Return the smallest n with 1 − p^n ≥ 0.99: n independent samples that reach beyond the percentile."""
    share = max(percent, 100 - percent) / 100
    return math.ceil(math.log(1 - SEEN) / math.log(share))


def percentiles(measurement: Measurement, percents: Sequence[float] = SHOWN) -> tuple[Percentile, ...]:
    """Return percentiles with exact order-statistic intervals.

    The value is the sample at place ⌈n·p⌉. Of m independent samples Binomial(m, p) lie below the percentile; the places
    whose tails are at most 2.5 % each are the interval's ends (David & Nagaraja, *Order Statistics*, 3rd ed., §7.1).

    Samples are not independent: slow calls come in groups. So m is not their number n but the *effective* one: with
    rounds as clusters, the share of samples beyond the percentile varies between rounds by a factor of D (the design
    effect) more than independent samples would, and m = n / max(D, 1) (Korn & Graubard, *Survey Methodology* 24, 1998;
    Woodruff, *JASA* 47, 1952, for percentiles). D is an estimate itself, and a rough one where few samples lie beyond.
    With several launches, the spread of the launches' medians is added: processes are taken to be slower or faster as a
    whole. That the tail's *shape* may change from process to process is not covered. P50 is the median with the
    interval that the ranking shows.
    """
    import numpy as np

    rows = [np.asarray(row) for row in measurement.rounds if len(row)]
    if not rows:
        return tuple(Percentile(percent, None, None, None, samples_needed(percent)) for percent in percents)
    values = np.concatenate(rows)
    starts = np.cumsum([0, *map(len, rows[:-1])])
    median = median_estimate(measurement)
    several = len(measurement.by_launch) > 1 and median.low > 0
    between = math.log(median.high / median.low) / 2 if several else 0.0  # half-width of the median's interval
    places = {percent: _place(len(values), percent) for percent in percents}
    ordered = np.partition(values, sorted(set(places.values())))
    estimates = [(percent, place, float(ordered[place])) for percent, place in places.items()]
    found = []
    for percent, place, value in estimates:
        effective = _effective(values, starts, percent, value)
        if effective < samples_needed(percent):
            needs = math.ceil(samples_needed(percent) * len(values) / max(min(effective, len(values)), 1))
            found.append(Percentile(percent, None, None, None, needs))
        elif percent == 50:
            found.append(Percentile(percent, median.value, median.low, median.high))
        else:
            ends = _ends(len(values), effective, percent, place)
            ordered.partition(ends)
            low, high = (float(ordered[end]) for end in ends)
            found.append(Percentile(percent, value, _wider(value, low, between), _wider(value, high, between)))
    return tuple(found)


def _place(n: int, percent: float) -> int:
    """Return the place of the percentile among n ordered samples, from 0."""
    return min(max(math.ceil(round(n * percent / 100, 9)), 1), n) - 1


def _effective(values: np.ndarray, starts: np.ndarray, percent: float, value: float) -> int:
    """Return how many independent samples these are worth to a percentile.

    Args:
        values: samples, round after round.
        starts: where each round begins.
        percent: the percentile.
        value: its estimate.
    """
    import numpy as np

    if len(values) < samples_needed(percent):
        return len(values)
    beyond = np.add.reduceat(values > value if percent >= 50 else values < value, starts, dtype=np.int64)
    return int(len(values) / max(_design_effect(beyond, np.diff([*starts, len(values)])), 1.0))


def _ends(n: int, effective: int, percent: float, place: int) -> tuple[int, int]:
    """Return the places of the interval's ends, from 0: those of the effective samples, among all."""
    low, high = ranks_around(effective, percent / 100, CONFIDENCE)
    low, high = math.floor(low * n / effective), math.ceil(high * n / effective)
    return min(max(low, 1) - 1, place), max(min(high, n) - 1, place)


def _design_effect(beyond: np.ndarray, sizes: np.ndarray) -> float:
    """Return the variance of a share over clusters, over that of independent samples.

    Args:
        beyond: samples beyond the percentile in each round.
        sizes: samples of each round.
    """
    n, rounds = int(sizes.sum()), len(sizes)
    share = float(beyond.sum()) / n
    if rounds < 2 or not 0 < share < 1:
        return 1.0
    clustered = float(((beyond - share * sizes) ** 2).sum()) * rounds / (rounds - 1) / n**2
    return clustered / (share * (1 - share) / n)


def _wider(value: float, end: float, between: float) -> float:
    """Add two independent half-widths of logarithms."""
    if value <= 0 or end <= 0 or not between:
        return end
    both = math.hypot(math.log(end / value), between)
    return value * math.exp(math.copysign(both, end - value)) if end != value else end
