"""The ratio of two targets measured in the same rounds: what each takes when nothing disturbs it, launch by launch.

What disturbs a call only ever makes it slower: a neighbour, a lost processor, a cache that others filled. So of each
launch the *calm mean* counts, the mean of the fastest quarter of its calls (:data:`CALM`).
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cross_backend.measure.quantiles import CONFIDENCE, normal_quantile, student_t
from cross_backend.measurement import Interval, Measurement

CALM = 0.25
"""Share of a launch's calls that count, the fastest. On two processors of which other processes wanted one and a half,
a launch's log ratio had a standard deviation of 18 to 24 % by medians and of 2 to 4 % so; where nothing disturbs, the
mean of a quarter scatters as little as the median of all (docs/measurement.md)."""
RESOLUTION = 0.055
"""How far two processes of one program seem apart at the 95th percentile: see docs/measurement.md for the figures."""
MIN_ROUNDS = 6
"""With fewer common rounds, two targets are not compared."""
PROCESS_SPREAD = RESOLUTION / normal_quantile((1 + CONFIDENCE) / 2)
"""Standard deviation of the log ratio of two processes of one program, 2.8 %: what makes 5.5 % the 95th percentile."""
PRIOR_FREEDOM = 4
"""How many launches' worth of belief that figure gets. With four, the spread of a new program on a new machine is taken
to lie between 0.6 and 2.9 times of it with 95 % probability (χ² with 4 degrees of freedom)."""


@dataclass(frozen=True)
class LogRatio:
    """The logarithm of first / second, and what its interval was made of."""

    value: float
    half_width: float
    """Half the interval, what processes differ by included."""
    launches: int
    """How many counted."""
    error: float
    """Standard error of the value."""
    freedom: int
    """Its degrees of freedom."""

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self.half_width

    @property
    def ratio(self) -> Interval:
        """The ratio itself."""
        return Interval(math.exp(self.value), math.exp(self.low), math.exp(self.high))

    @property
    def apart(self) -> bool:
        """Whether the interval leaves out 0: the two differ."""
        return abs(self.value) > self.half_width

    def at(self, confidence: float, floor: float = 0.0) -> LogRatio:
        """Return the same with the interval of another confidence, at least as wide as the floor to either side."""
        half = min(student_t((1 + confidence) / 2, self.freedom) * self.error, 700.0)  # beyond, a float overflows
        return replace(self, half_width=max(half, floor))


def resolution(launches: int) -> float:
    """Return the smallest half-width that is claimed after so many launches: 7.8 % after one, 2.0 % after five.

    It is what :func:`log_ratio` returns when the launches show no spread at all: what is left of the belief that two
    processes may be 5.5 % apart. Launches that agree are evidence that processes differ less here.
    """
    freedom = PRIOR_FREEDOM + launches - 1
    left = PROCESS_SPREAD * math.sqrt(PRIOR_FREEDOM / freedom / launches)
    return student_t((1 + CONFIDENCE) / 2, freedom) * left


def all_pairs(targets: int) -> int:
    """Return how many pairs so many targets make."""
    return targets * (targets - 1) // 2


def joint_confidence(pairs: int) -> float:
    """Return the confidence of each of so many intervals with which all together are right in 95 % (Bonferroni).

    The fastest of many equal targets was lucky, and the slowest unlucky, so their pair differs far more often than a
    pair that was named before.
    """
    return 1 - (1 - CONFIDENCE) / max(pairs, 1)


def log_ratio(
    first: Measurement, second: Measurement, confidence: float = CONFIDENCE, floor: float = 0.0
) -> LogRatio | None:
    """Return the logarithm of first / second.

    In every launch the log ratio of the two calm means (:data:`CALM`), over the rounds that both took part in, is one
    observation d_l. The figure is the mean of these, and its interval that of the *moderated* t statistic (Smyth,
    *Stat. Appl. Genet. Mol. Biol.* 3(1), 2004, §3), t(ν₀ + L − 1)·s̃/√L where s̃² = (ν₀·s₀² + (L − 1)·s²)/(ν₀ + L − 1),
    s² is the variance of d_l, and s₀² what it is believed to be before: :data:`PROCESS_SPREAD`² plus the variance that
    a calm mean of so few rounds has, which the rounds show. So one launch has an interval, and two or three that happen
    to agree do not pretend a precision that they cannot have; after many only s² counts.
    With one round a launch nothing is believed (ν₀ = 0): the plain t interval.

    Args:
        first: one.
        second: the other.
        confidence: of the interval.
        floor: noise floor: the interval is at least this wide to either side.

    Returns:
        None with fewer than six common rounds, or with one round a launch and fewer than three launches.

    Raises:
        ValueError: the two were not measured in the same rounds.
    """
    launches = _launches(first, second)
    rounds = sum(count for count, _, _ in launches)
    believed = PRIOR_FREEDOM if any(count > 1 for count, _, _ in launches) else 0
    freedom = believed + len(launches) - 1
    if not launches or (believed and rounds < MIN_ROUNDS) or (not believed and len(launches) < 3):
        return None
    values = [value for _, value, _ in launches]
    within = statistics.fmean(error**2 for count, _, error in launches if count > 1) if believed else 0.0
    seen = statistics.variance(values) if len(values) > 1 else 0.0
    variance = (believed * (PROCESS_SPREAD**2 + within) + (len(values) - 1) * seen) / freedom
    error = math.sqrt(variance / len(values))
    return LogRatio(statistics.fmean(values), 0.0, len(values), error, freedom).at(confidence, floor)


def _launches(first: Measurement, second: Measurement) -> list[tuple[int, float, float]]:
    """Return common rounds, log ratio and its standard error of each launch that has any common round."""
    if [len(rounds) for rounds in first.by_launch] != [len(rounds) for rounds in second.by_launch]:
        raise ValueError("the two were not measured in the same rounds")
    tick = 1.0 if first.unit == "ns" else sys.float_info.min  # a coarse clock may give 0 ns
    found = []
    for mine, theirs in zip(first.by_launch, second.by_launch, strict=True):
        common = [(a, b) for a, b in zip(mine, theirs, strict=True) if len(a) and len(b)]
        if common:
            one, other = (_calm([pair[side] for pair in common], tick) for side in (0, 1))
            steps = [a - b for a, b in zip(one[1], other[1], strict=True)]
            found.append((len(common), math.log(one[0] / other[0]), _error(steps)))
    return found


def _error(steps: Sequence[float]) -> float:
    """Return the standard error of a difference of calm means, from what each round moves it by.

    With few rounds that is too small by some 30, 15 and 5 % for 8, 12 and 30 (simulated): rather as many observations
    count as there are calm rounds.
    """
    if len(steps) < 2:
        return 0.0
    calm = max(math.ceil(len(steps) * CALM), 2)
    return statistics.stdev(steps) * math.sqrt(calm / (calm - 1) / len(steps))


def _calm(rounds: Sequence[Sequence[float]], tick: float) -> tuple[float, list[float]]:
    """Return the calm mean, and how much each round moves it, relatively.

    The mean of the fastest share p is, but for a constant, the mean over all calls of min(call, q)/p with q the
    slowest call that counts: its influence function, as of trimmed means (Tukey & McLaughlin, *Sankhyā* A 25, 1963).
    The calls of a round follow each other closely and are not independent, so their mean is one observation.
    """
    import numpy as np

    calls = np.concatenate([np.asarray(row, float) for row in rounds])
    counted = math.ceil(len(calls) * CALM)
    fastest = np.partition(calls, counted - 1)[:counted]
    mean, slowest = max(float(fastest.mean()), tick), float(fastest[-1])
    starts = np.cumsum([0, *map(len, rounds[:-1])])
    clipped = np.add.reduceat(np.minimum(calls, slowest), starts) / np.diff([*starts, len(calls)])
    return mean, (clipped / (mean * counted / len(calls))).tolist()
