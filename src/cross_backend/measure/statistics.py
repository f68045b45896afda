"""Statistics of interleaved measurements: intervals of medians and of ratios, the noise floor, verdicts.

A *round* is one block of calls of every target of a panel. Samples inside a round follow each other within
milliseconds and are not independent, so a round's median counts as one observation. A *launch* starts every target in
a process of its own; rounds of one launch share its processes' memory layout, so with several launches a launch counts
as one observation (Kalibera & Jones, *Rigorous Benchmarking in Reasonable Time*, ISMM 2013). docs/measurement.md
explains it.
"""

from __future__ import annotations

import math
import statistics

from cross_backend.measure.paired import MIN_ROUNDS, PROCESS_SPREAD, log_ratio, resolution
from cross_backend.measure.quantiles import CONFIDENCE, median_error, median_interval, normal_quantile, student_t
from cross_backend.measurement import Interval, Measurement

UNPAIRED_RESOLUTION = math.log(1.29)
"""What two single launches at different times must differ by. The same target measured twice after each other on a
shared machine, median after median: up to 29 % apart at the 95th percentile (docs/measurement.md)."""


def latency_ms(measurement: Measurement) -> Interval:
    """Return the median of all samples, in milliseconds, and its interval; see :func:`median_estimate`."""
    found = median_estimate(measurement)
    return Interval(found.value / 1e6, found.low / 1e6, found.high / 1e6)


def median_estimate(measurement: Measurement) -> Interval:
    """Return the median of all samples and its 95 % interval, in the measurement's unit.

    One launch: the order-statistic interval of the round medians; it speaks of this process only. Several: Student's
    interval of the logarithms of the launches' medians, which holds the spread between processes and whatever else
    changed between launches; it is never narrower than what processes are known to differ by (:func:`resolution`).
    Two launches make a wide interval, because two values hardly show a spread; take three or more.
    """
    value = measurement.median
    medians = _launch_medians(measurement)
    if len(medians) < 2 or min(medians) <= 0:
        low, high = median_interval([m for m in measurement.round_medians if not math.isnan(m)])
        return Interval(value, min(low, value), max(high, value))
    logs = [math.log(m) for m in medians]
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    half = max(student_t((1 + CONFIDENCE) / 2, len(logs) - 1) * error, resolution(len(logs)) / math.sqrt(2))
    half = min(half, 700.0)  # beyond, a float overflows; the interval then says that nothing is known
    centre = statistics.fmean(logs)
    return Interval(value, min(math.exp(centre - half), value), max(math.exp(centre + half), value))


def noise_floor(first: Measurement, twin: Measurement) -> float | None:
    """Return the largest relative difference that the same target against itself makes believable here.

    It is the farther end of the pair's interval, so at least :func:`resolution` of the launches: the twins may have
    been lucky. A logarithm: 0.055 is a ratio of 1.0565.
    """
    ratio = log_ratio(first, twin)
    if ratio is None:
        return None
    return max(abs(ratio.low), abs(ratio.high))


def unpaired_ratio(first: Measurement, second: Measurement, confidence: float = CONFIDENCE) -> Interval | None:
    """Return first / second for two measurements that were taken at different times, with its interval.

    The unit is the launch's median: Welch's interval of the difference of their mean logarithms (Welch, *Biometrika*
    34, 1947, with Satterthwaite's degrees of freedom). Where one side has a single launch, it is taken to spread like
    the other; where both have, the interval is at least :data:`UNPAIRED_RESOLUTION` to either side. It is never
    narrower than what processes are known to differ by.

    Its weakness: the machine's state in one study is shared by all launches of that study. What differs between the
    two *studies* (another kernel, another neighbour on the host, heat) and stays the same within each is
    not in any spread seen here, and looks like a change of the program. Launches that lie far apart in time help;
    only measuring both side by side in one study removes it.

    Args:
        first: one.
        second: the other.
        confidence: of the interval; the least half-widths stay what they are.

    Returns:
        None where both have a single launch, and either fewer than six rounds.
    """
    sides = [[math.log(m) for m in _launch_medians(one) if m > 0] for one in (first, second)]
    counts = [len(side) for side in sides]
    if 0 in counts:
        return None
    if max(counts) == 1:
        rounds = [[math.log(m) for m in one.round_medians if m > 0] for one in (first, second)]
        if min(map(len, rounds)) < MIN_ROUNDS:
            return None
        within = normal_quantile((1 + confidence) / 2) * math.hypot(*map(median_error, rounds))
        half = max(UNPAIRED_RESOLUTION, within)
    else:
        variances = [statistics.variance(side) if len(side) > 1 else None for side in sides]
        half = _welch_half_width([v for v in variances if v is not None], counts, confidence)
        half = max(
            half, PROCESS_SPREAD * normal_quantile((1 + confidence) / 2) * math.sqrt(sum(0.5 / n for n in counts))
        )
    value, half = statistics.fmean(sides[0]) - statistics.fmean(sides[1]), min(half, 600.0)
    return Interval(math.exp(value), math.exp(value - half), math.exp(value + half))


def _welch_half_width(variances: list[float], counts: list[int], confidence: float) -> float:
    """Return t·s; with one variance only, both sides are taken to have it."""
    shares = [v / n for v, n in zip(variances * (3 - len(variances)), counts, strict=True)]
    error = math.sqrt(sum(shares))
    freedom = max(counts) - 1
    if len(variances) == 2 and error > 0:
        freedom = int(sum(shares) ** 2 / sum(share**2 / (n - 1) for share, n in zip(shares, counts, strict=True)))
    return student_t((1 + confidence) / 2, max(freedom, 1)) * error


def _launch_medians(measurement: Measurement) -> list[float]:
    """Return the median of the round medians of every launch that has any."""
    medians, start = [], 0
    for rounds in measurement.by_launch:
        own = [m for m in measurement.round_medians[start : start + len(rounds)] if not math.isnan(m)]
        start += len(rounds)
        if own:
            medians.append(statistics.median(own))
    return medians
