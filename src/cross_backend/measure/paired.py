"""The ratio of two targets measured in the same rounds: by round within a launch, by launch where there are several."""

from __future__ import annotations

import math
import statistics
import sys
from dataclasses import dataclass

from cross_backend.measure.quantiles import CONFIDENCE, median_error, median_interval, normal_quantile, student_t
from cross_backend.samples import Measurement

RESOLUTION = 0.055
"""Smallest noise floor that is ever claimed of a single launch. Two processes of one program differ by their memory
layout alone, and a single pair of twins cannot show by how much: see docs/measurement.md for the figures."""
MIN_ROUNDS = 6
"""With fewer, the range of all values holds the median with less than 95 % confidence: 1 − 2·0.5^6 = 96.9 %."""
PROCESS_SPREAD = RESOLUTION / normal_quantile((1 + CONFIDENCE) / 2)
"""Standard deviation of the log ratio of two processes of one program, 2.8 %: what makes 5.5 % the 95th percentile."""
PRIOR_FREEDOM = 4
"""How many launches' worth of belief that figure gets. With four, the spread of a new program on a new machine is taken
to lie between 0.6 and 2.9 times of it with 95 % probability (χ² with 4 degrees of freedom)."""


@dataclass(frozen=True)
class LogRatio:
    """The logarithm of first / second, and what its interval was made of."""

    value: float
    low: float
    """Of one launch: without what processes differ by."""
    high: float
    launches: int
    """How many counted; 1 where the rounds were the unit."""
    spread: float
    """Standard deviation of a launch's log ratio as the launches showed it; of one launch, as it is believed."""
    prior: float
    """Standard deviation that it was believed to have before: processes differ, and rounds are few."""
    prior_freedom: int
    """Degrees of freedom of that belief; 0 where nothing was believed."""

    @property
    def half_width(self) -> float:
        """Half the interval."""
        return (self.high - self.low) / 2

    @property
    def margin(self) -> float:
        """Half the interval, with what processes are known to differ by where it is not in it."""
        return self.half_width if self.launches > 1 else self.half_width + RESOLUTION

    @property
    def freedom(self) -> int:
        """Degrees of freedom of :attr:`error`."""
        return self.prior_freedom + self.launches - 1

    @property
    def error(self) -> float:
        """Standard error, between processes too."""
        believed, seen = self.prior_freedom, self.launches - 1
        return math.sqrt((believed * self.prior**2 + seen * self.spread**2) / max(believed + seen, 1) / self.launches)

    def beyond(self, floor: float) -> bool:
        """Say whether it shows a difference beyond the noise floor; see ``statistics.can_tell_apart``."""
        if self.launches == 1:
            return self.low > floor or self.high < -floor
        return self.low * self.high > 0 and abs(self.value) > floor


def resolution(launches: int) -> float:
    """Give the smallest noise floor that is claimed after so many launches: 5.5 % after one, 2.1 % after five.

    It is the half-width that :func:`log_ratio` gives when the launches show no spread at all: what is left of the
    belief that two processes may be 5.5 % apart. From four launches on it is below 5.5 %/√L, because launches that
    agree are evidence that processes differ less here.
    """
    if launches <= 1:
        return RESOLUTION
    freedom = PRIOR_FREEDOM + launches - 1
    left = PROCESS_SPREAD * math.sqrt(PRIOR_FREEDOM / freedom / launches)
    return student_t((1 + CONFIDENCE) / 2, freedom) * left


def ranking_confidence(measurement: Measurement, targets: int) -> float:
    """Give the confidence of each interval with which all verdicts of a ranking together are right in 95 %.

    The fastest of many equal targets was lucky, and the slowest unlucky, so their pair differs far more often than a
    pair that was named before: Bonferroni's 1 − 0.05/pairs over all pairs. With one launch the noise floor, which is
    then wide, stands for that.
    """
    pairs = max(targets * (targets - 1) // 2, 1) if len(measurement.by_launch) > 1 else 1
    return 1 - (1 - CONFIDENCE) / pairs


def log_ratio(first: Measurement, second: Measurement, confidence: float = CONFIDENCE) -> LogRatio | None:
    """Give the logarithm of first / second.

    In every launch the median over rounds of the log ratio of the two medians of a round is one observation d_l.
    One launch: the rounds' order-statistic interval. L launches: the mean of d_l with the interval of the *moderated*
    t statistic (Smyth, *Stat. Appl. Genet. Mol. Biol.* 3(1), 2004, §3), t(ν₀ + L − 1)·s̃/√L where
    s̃² = (ν₀·s₀² + (L − 1)·s²)/(ν₀ + L − 1), s² is the variance of d_l, and s₀² what it is believed to be before:
    :data:`PROCESS_SPREAD`² plus the variance that a median of so few rounds has, which the rounds show. So two or three
    launches that happen to agree do not pretend a precision that they cannot have, and after many only s² counts.
    With one round a launch nothing is believed (ν₀ = 0): the plain t interval.

    Returns:
        None with fewer than six common rounds, or with one round a launch and fewer than three launches.

    Raises:
        ValueError: the two were not measured in the same rounds.
    """
    launches = [own for own in _differences(first, second) if own]
    rounds = [value for own in launches for value in own]
    if len(launches) == 1 and len(rounds) >= MIN_ROUNDS:
        low, high = median_interval(rounds, confidence)
        spread = math.hypot(PROCESS_SPREAD, median_error(rounds))
        return LogRatio(statistics.median(rounds), low, high, 1, spread, spread, PRIOR_FREEDOM)
    many = [own for own in launches if len(own) > 1]
    if len(launches) < 2 or (len(rounds) < MIN_ROUNDS and many) or (len(launches) < 3 and not many):
        return None
    medians = [statistics.median(own) for own in launches]
    within = statistics.fmean(median_error(own) ** 2 for own in many) if many else 0.0
    value, spread = statistics.fmean(medians), statistics.stdev(medians)
    prior = math.sqrt(PROCESS_SPREAD**2 + within)
    found = LogRatio(value, value, value, len(launches), spread, prior, PRIOR_FREEDOM if many else 0)
    half = min(student_t((1 + confidence) / 2, found.freedom) * found.error, 700.0)  # beyond, a float overflows
    return LogRatio(value, value - half, value + half, len(launches), spread, prior, found.prior_freedom)


def _differences(first: Measurement, second: Measurement) -> list[list[float]]:
    """Give the log ratios of the common rounds of each launch."""
    if [len(rounds) for rounds in first.by_launch] != [len(rounds) for rounds in second.by_launch]:
        raise ValueError("the two were not measured in the same rounds")
    tick = 1.0 if first.unit == "ns" else sys.float_info.min  # a coarse clock may give 0 ns
    pairs = [
        None if math.isnan(a) or math.isnan(b) else math.log(max(a, tick) / max(b, tick))
        for a, b in zip(first.round_medians, second.round_medians, strict=True)
    ]
    found, start = [], 0
    for rounds in first.by_launch:
        found.append([value for value in pairs[start : start + len(rounds)] if value is not None])
        start += len(rounds)
    return found
