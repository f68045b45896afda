"""Precision: what difference would be found, and whether the asked one is reached."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cross_backend.measure.paired import LogRatio, log_ratio, ranking_confidence, resolution
from cross_backend.measure.quantiles import student_t
from cross_backend.samples import Measurement

POWER = 0.975
"""Quantile of t that the advertised difference lies beyond the threshold. 0.95 would do if the threshold were the
same in every study; it is estimated too, and with 0.95 a difference of the average advertised size was found in 92 to
94 % of simulated studies, with 0.975 in 95 to 97 %."""
EARLY = 0.999
"""Least confidence at which a target counts as apart before the last launch. Looking at the verdict after every launch
and stopping at the first that pleases would be wrong far more often than 5 %; with so strict a rule for the looks
before the last, the last one keeps its 5 % (Haybittle, *Br. J. Radiol.* 44, 1971; Peto et al., *Br. J.
Cancer* 34, 1976)."""


def detectable(
    leader: Measurement, others: Sequence[Measurement], floor: float | None, targets: int = 2
) -> float | None:
    """Give the relative difference that is found in 95 of 100 such studies: what a report may advertise.

    A target is found slower when its estimated ratio lies beyond a threshold T: the noise floor or the interval's
    half-width, whichever is larger (with one launch, their sum). An estimate scatters by its standard error e around
    the true ratio, so a true difference of exactly T is found in only half of all studies; it takes T + t·e to be
    found nearly always (:data:`POWER`). "Differences below x % cannot be told apart" is said of this x: smaller ones
    may be found, but need not be.

    Args:
        leader: the fastest.
        others: those it is compared with: the targets that were not told apart from it, and its twin. The largest
            figure counts, so a target that is far apart and noisy need not be among them.
        floor: noise floor, a logarithm; :func:`resolution` of the launches where it was not measured.
        targets: how many are ranked together.

    Returns:
        0.03 for 3 %; None where nothing can be compared.
    """
    confidence = ranking_confidence(leader, targets)
    ratios = [ratio for ratio in (log_ratio(leader, other, confidence) for other in others) if ratio is not None]
    return math.expm1(max(_detectable(ratio, floor) for ratio in ratios)) if ratios else None


def _detectable(ratio: LogRatio, floor: float | None) -> float:
    floor = resolution(ratio.launches) if floor is None else floor
    threshold = floor + ratio.half_width if ratio.launches == 1 else max(floor, ratio.half_width)
    return threshold + student_t(POWER, ratio.freedom) * ratio.error


def precision_reached(
    leader: Measurement, others: Sequence[Measurement], margin: float, floor: float | None = None, targets: int = 2
) -> bool:
    """Say whether no further launch is needed.

    Every other target is either clearly apart from the leader (:data:`EARLY`), or the interval of its ratio to the
    leader is at most ``margin`` to either side. With one launch, what processes differ by is added to the interval, so
    a margin below 5.5 % always takes several.

    Args:
        leader: the fastest so far.
        others: the rest; the leader's twin may be among them.
        margin: relative, 0.01 for 1 %.
        floor: noise floor, a logarithm; :func:`resolution` of the launches where it was not measured.
        targets: how many are ranked together.
    """
    return all(_reached(log_ratio(leader, other), margin) or _apart(leader, other, floor, targets) for other in others)


def _reached(ratio: LogRatio | None, margin: float) -> bool:
    return ratio is not None and ratio.margin <= math.log1p(margin)


def _apart(leader: Measurement, other: Measurement, floor: float | None, targets: int) -> bool:
    strict = log_ratio(leader, other, max(EARLY, ranking_confidence(leader, targets)))
    return strict is not None and strict.beyond(resolution(strict.launches) if floor is None else floor)
