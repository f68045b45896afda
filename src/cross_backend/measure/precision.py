"""Precision: what difference would be found, and whether the asked one is reached."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cross_backend.measure.paired import LogRatio, all_pairs, joint_confidence, log_ratio
from cross_backend.measure.quantiles import student_t
from cross_backend.measurement import Measurement

POWER = 0.975
"""Quantile of t that the advertised difference lies beyond the threshold. 0.95 would do if the threshold were the
same in every study; it is estimated too, and with 0.95 a difference of the average advertised size was found in 92 to
94 % of simulated studies, with 0.975 in 95 to 97 %."""
EARLY = 0.999
"""Least confidence at which a target counts as apart before the last launch. Looking at the verdict after every launch
and stopping at the first that pleases would be wrong far more often than 5 %; with so strict a rule for the looks
before the last, the last one keeps its 5 % (Haybittle, *Br. J. Radiol.* 44, 1971; Peto et al., *Br. J.
Cancer* 34, 1976)."""


def smallest_detectable(ratio: LogRatio) -> float:
    """Return the logarithm of the true ratio that such an interval leaves out 1 of in 95 of 100 studies.

    A target is found slower when its estimated ratio lies beyond a threshold T, the half-width of its interval, which
    is not below the noise floor. An estimate scatters by its standard error e around the true ratio, so a true
    difference of exactly T is found in only half of all studies; it takes T + t·e to be found nearly always
    (:data:`POWER`). Smaller ones may be found, but need not be.
    """
    return ratio.half_width + student_t(POWER, ratio.freedom) * ratio.error


def precision_reached(
    leader: Measurement, others: Sequence[Measurement], margin: float, floor: float | None = None, targets: int = 2
) -> bool:
    """Whether no further launch is needed for a margin.

    Every other target is either clearly apart from the leader (:data:`EARLY`), or the interval of its ratio to the
    leader is at most ``margin`` to either side. After one launch that is 7.8 % at least, so smaller margins always take
    several.

    Args:
        leader: the fastest so far.
        others: the rest; the leader's twin may be among them.
        margin: relative, 0.01 for 1 %.
        floor: noise floor, a logarithm; None where it was not measured.
        targets: how many are ranked together.
    """

    def reached(ratio: LogRatio | None) -> bool:
        fine = ratio is not None and ratio.half_width <= math.log1p(margin)
        return fine or clearly_apart(ratio, floor or 0.0, targets)

    return all(reached(log_ratio(leader, other)) for other in others)


def clearly_apart(ratio: LogRatio | None, floor: float, targets: int, by: float = 0.0) -> bool:
    """Whether two of so many targets differ so clearly that one may stop at it; see :data:`EARLY`.

    Args:
        ratio: of the two.
        floor: noise floor, a logarithm.
        targets: how many are ranked together.
        by: relative difference that they must differ by at least.
    """
    if ratio is None:
        return False
    strict = ratio.at(max(EARLY, joint_confidence(all_pairs(targets))), floor)
    return abs(strict.value) - strict.half_width > math.log1p(by)
