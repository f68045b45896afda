"""Exact quantiles and order-statistic intervals: Student's t, the binomial, the median; the core needs no SciPy."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95
"""Of every interval, two-sided, unless it says otherwise."""


@functools.lru_cache(maxsize=4096)
def student_t(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution.

    The distribution function is the finite series in θ = arctan(t/√ν) of Abramowitz & Stegun, *Handbook of
    Mathematical Functions*, 26.7.3 and 26.7.4; it is inverted by bisection.

    Args:
        probability: between ½ and 1.
        freedom: degrees of freedom ν, at least one.
    """
    assert 0.5 <= probability < 1, "the other half is its mirror image"
    assert freedom >= 1, "no spread without two observations"
    if freedom > 1000:  # the first term of 26.7.5; the next is below 1e-5
        z = normal_quantile(probability)
        return z + (z**3 + z) / (4 * freedom)
    wanted, low, high = 2 * probability - 1, 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _central(middle, freedom) < wanted else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _central(theta: float, freedom: int) -> float:
    """Return P(|T| < √ν·tan θ)."""
    sine, cosine = math.sin(theta), math.cos(theta)
    term, total = 1.0, 0.0
    if freedom % 2 == 0:
        for k in range(0, freedom - 1, 2):
            total += term
            term *= (k + 1) / (k + 2) * cosine * cosine
        return sine * total
    term = cosine
    for k in range(1, freedom - 1, 2):
        total += term
        term *= (k + 1) / (k + 2) * cosine * cosine
    return 2 / math.pi * (theta + sine * total)


def ranks_around(count: int, share: float, confidence: float) -> tuple[int, int]:
    """Return the places, from 1, of the ordered values that enclose a quantile with at least this confidence.

    The number of n independent values below the quantile is Binomial(n, share); each end may be missed with
    (1 − confidence)/2 (David & Nagaraja, *Order Statistics*, 3rd ed., §7.1). The upper place is n + 1 and the lower 0
    where no value will do.

    Args:
        count: number of values.
        share: of the population that lies below, between 0 and 1.
        confidence: two-sided.
    """
    tail = (1 - confidence) / 2
    return _below(count, share, tail), count + 1 - _below(count, 1 - share, tail)


def _below(count: int, share: float, tail: float) -> int:
    """Return the largest place k with P(B < k) ≤ tail; 0 where even the first value is above too often."""
    spread = math.sqrt(count * share * (1 - share))
    start = max(0, int(count * share - 12 * spread) - 40)  # what lies below is less than 1e-30
    log_first = (
        math.lgamma(count + 1)
        - math.lgamma(start + 1)
        - math.lgamma(count - start + 1)
        + start * math.log(share)
        + (count - start) * math.log1p(-share)
    )
    odds = math.log(share) - math.log1p(-share)
    total, log_term = 0.0, log_first
    for k in range(start, count + 1):
        total += math.exp(log_term)
        if total > tail:
            return k
        log_term += math.log((count - k) / (k + 1)) + odds if k < count else 0.0
    return count


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the exact order-statistic interval of a population median.

    For n independent values the number below the median is Binomial(n, ½), so the interval from the
    k-th smallest to the k-th largest holds it with probability 1 − 2·P(B < k). The largest k that keeps the
    confidence is taken; with fewer than six values the whole range is given (David & Nagaraja,
    *Order Statistics*, 3rd ed., §7.1).
    """
    low, _ = _median_places(len(values), confidence)
    ordered = sorted(values)
    return ordered[low], ordered[len(values) - 1 - low]


def median_error(values: Sequence[float]) -> float:
    """Return the standard error of a median of independent values, as its order-statistic interval shows it.

    Half the interval's width over the normal deviate of its exact confidence. Unlike a formula with the standard
    deviation it needs no shape and is not moved by single outliers. One value has no error to show: 0.
    """
    low, confidence = _median_places(len(values), CONFIDENCE)
    if confidence <= 0:
        return 0.0
    ordered = sorted(values)
    return (ordered[len(values) - 1 - low] - ordered[low]) / 2 / normal_quantile((1 + confidence) / 2)


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return statistics.NormalDist().inv_cdf(probability)


@functools.lru_cache(maxsize=4096)
def _median_places(n: int, confidence: float) -> tuple[int, float]:
    """Return the interval's lower place, from 0, and the confidence that it has."""
    if n > 1000:  # the whole numbers below grow long
        return ranks_around(n, 0.5, confidence)[0] - 1, confidence
    tail, k = 0.0, 0
    while k < (n - 1) // 2:
        more = math.comb(n, k) / 2**n
        if 2 * (tail + more) > 1 - confidence:
            break
        tail += more
        k += 1
    if k:
        return k - 1, 1 - 2 * tail
    return 0, 1 - 2 / 2**n
