"""Warm-up: calls before the measurement, until their durations are steady."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from cross_backend.bench.bench import Bench
from cross_backend.measure.steady import FEWEST_CALLS, steady_from

WARM_SERIES = 50
"""Calls of the first warm-up series; each further one doubles all calls, so that few judgements are made."""
WARM_SERIES_S = 0.5
"""Most seconds of one warm-up series."""
WARM_UP_S = 2.0
"""Most seconds of warm-up; a target that is not steady by then, after enough calls to judge, carries a warning."""
WARM_AGAIN_S = 0.5
"""The same of a further launch where as many launches as it takes share a time box. Where it is not steady by then, the
slow calls are not among those that count (``measure.paired.CALM``); the first launch has told that it takes long."""
WARM_UP_CALLS = 12_800
"""Most calls of warm-up: two seconds of a microsecond each would be millions."""
MOST_JUDGED = 300
"""Longest series that is judged call by call; longer ones by the medians of so many groups of neighbours."""


def warm_up(bench: Bench, most_s: float = WARM_UP_S) -> tuple[float, str | None]:
    """Call until the durations are steady; return their median in milliseconds, and a warning where they never were."""
    return until_steady(lambda count: bench.sample(count, 0, WARM_SERIES_S).ns, most_s)


def until_steady(take: Callable[[int], list[int]], most_s: float = WARM_UP_S) -> tuple[float, str | None]:
    """Do the same, of durations in nanoseconds; ``take`` returns so many or fewer."""
    calls = list(take(WARM_SERIES))
    while (steady := _steady(calls)) is None and sum(calls) < most_s * 1e9 and len(calls) < WARM_UP_CALLS:
        calls += take(len(calls))
    if steady is not None:
        return float(statistics.median(calls[steady:])) / 1e6, None
    told = None
    if len(calls) >= FEWEST_CALLS:
        told = f"not steady after {len(calls):,} calls, {sum(calls) / 1e9:.2g} s, of warm-up"
    return float(statistics.median(calls[len(calls) // 2 :])) / 1e6, told


def _steady(calls: Sequence[int]) -> int | None:
    """Return the index of the first steady call; the work does not grow with a long series."""
    size = math.ceil(len(calls) / MOST_JUDGED)
    skipped = len(calls) % size
    groups = [statistics.median(calls[i : i + size]) for i in range(skipped, len(calls), size)] if size > 1 else calls
    found = steady_from(groups)
    return skipped + found * size if found else found
