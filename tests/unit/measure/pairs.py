"""Two measurements beside each other, as :class:`cross_backend.measure.ranking.Ranking` looks at them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cross_backend.measure.paired import all_pairs, joint_confidence, log_ratio
from cross_backend.measure.precision import smallest_detectable
from cross_backend.measure.quantiles import CONFIDENCE
from cross_backend.measurement import Interval, Measurement


def paired_ratio(
    first: Measurement, second: Measurement, confidence: float = CONFIDENCE, floor: float = 0.0
) -> Interval | None:
    """Return first / second with its interval; None where nothing can be compared."""
    found = log_ratio(first, second, confidence, floor)
    return None if found is None else found.ratio


def can_tell_apart(first: Measurement, second: Measurement, floor: float, targets: int = 2) -> bool:
    """Whether two of so many targets differ: whether the interval of their ratio leaves out 1."""
    ratio = log_ratio(first, second, joint_confidence(all_pairs(targets)), floor)
    return ratio is not None and ratio.apart


def detectable(
    leader: Measurement, others: Sequence[Measurement], floor: float | None, targets: int = 2
) -> float | None:
    """Return the relative difference from the leader that is found in 95 of 100 such studies; the largest figure."""
    confidence = joint_confidence(all_pairs(targets))
    found = [log_ratio(leader, other, confidence, floor or 0.0) for other in others]
    return max((math.expm1(smallest_detectable(ratio)) for ratio in found if ratio is not None), default=None)
