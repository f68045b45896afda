"""Statistics of interleaved measurements: intervals that need no distribution, paired ratios, the noise floor.

A *round* is one visit to every target of a panel. Samples inside a round follow each other within
milliseconds and are not independent, so a round's median counts as one observation.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from cross_backend.records import Interval, Measurement

CONFIDENCE = 0.95
RESOLUTION = 0.055
"""Smallest noise floor that is ever claimed. Two processes of one program differ by their memory layout alone, and a
single pair of twins cannot show by how much: see docs/measurement.md for the figures."""
MIN_ROUNDS = 6
"""With fewer, the range of all values holds the median with less than 95 % confidence: 1 − 2·0.5^6 = 96.9 %."""


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Give the exact order-statistic interval of a population median.

    For n independent values the number below the median is Binomial(n, ½), so the interval from the
    k-th smallest to the k-th largest holds it with probability 1 − 2·P(B < k). The largest k that keeps the
    confidence is taken; with fewer than six values the whole range is given (David & Nagaraja,
    *Order Statistics*, 3rd ed., §7.1).
    """
    ordered, n = sorted(values), len(values)
    tail, k = 0.0, 0
    while k < (n - 1) // 2:
        tail += math.comb(n, k) / 2**n
        if 2 * tail > 1 - confidence:
            break
        k += 1
    low = max(k - 1, 0)
    return ordered[low], ordered[n - 1 - low]


def latency_ms(measurement: Measurement) -> Interval:
    """Give the median of all samples and the interval of its round medians, in milliseconds."""
    median = statistics.median(measurement.values)
    low, high = median_interval([statistics.median(row) for row in measurement.rounds if row])
    return Interval(median / 1e6, min(low, median) / 1e6, max(high, median) / 1e6)


def paired_ratio(first: Measurement, second: Measurement) -> Interval | None:
    """Give the median over rounds of first / second, with its interval; None with fewer than six common rounds."""
    ratios = [  # a coarse clock may give 0 ns
        max(statistics.median(a), 1) / max(statistics.median(b), 1)
        for a, b in zip(first.rounds, second.rounds, strict=True)
        if a and b
    ]
    if len(ratios) < MIN_ROUNDS:
        return None
    low, high = median_interval(ratios)
    return Interval(statistics.median(ratios), low, high)


def noise_floor(first: Measurement, twin: Measurement) -> float | None:
    """Give the largest relative difference that the same target against itself makes believable here."""
    ratio = paired_ratio(first, twin)
    if ratio is None:
        return None
    return max(RESOLUTION, abs(math.log(ratio.low)), abs(math.log(ratio.high)))


def can_tell_apart(first: Measurement, second: Measurement, floor: float) -> bool:
    """Say whether the paired ratio's whole interval lies beyond the noise floor."""
    ratio = paired_ratio(first, second)
    return ratio is not None and (math.log(ratio.low) > floor or math.log(ratio.high) < -floor)
