"""Do the statistics keep their promises? Simulated studies whose truth is known; prints four tables.

python benchmarks/statistics_simulated.py [STUDIES]
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator

import numpy as np
from _simulated import Machine, first_launches, simulate, warm_up
from _table import show

from cross_backend.comparison.settings import MOST_DECIDING
from cross_backend.measure.paired import log_ratio
from cross_backend.measure.precision import precision_reached, smallest_detectable
from cross_backend.measure.ranking import Ranking
from cross_backend.measure.statistics import latency_ms, noise_floor
from cross_backend.measure.steady import steady_from
from cross_backend.measurement import Measurement

MACHINES = {
    "quiet, processes 0.5 %": Machine(process=0.005, noise=0.02),
    "processes 1 %": Machine(process=0.01),
    "processes 2 %": Machine(),
    "processes 2 %, two-valued": Machine(kind="bimodal"),
    "processes 2 %, heavy tails": Machine(kind="heavy"),
    "processes 3 %": Machine(process=0.03),
    "processes 1 %, bursts on half": Machine(process=0.01, bursts=0.5),
}
WARM_UPS = ("none", "constant", "outlier", "sudden", "exponential", "trend", "late jump", "cycle")


def can_tell_apart(first: Measurement, second: Measurement, floor: float) -> bool:
    """Say whether the interval of the ratio of two targets leaves out 1."""
    ratio = log_ratio(first, second, floor=floor)
    return ratio is not None and ratio.apart


def detectable(leader: Measurement, others: list[Measurement], floor: float | None) -> float | None:
    """Give the largest relative difference from a leader that is found in 95 of 100 such studies."""
    found = [log_ratio(leader, other, floor=floor or 0.0) for other in others]
    return max((math.expm1(smallest_detectable(ratio)) for ratio in found if ratio is not None), default=None)


def verdicts(machine: Machine, launches: int, studies: int, seed: int) -> dict[str, float]:
    """Give shares of studies: false verdicts, covered truths, differences found."""
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(("ratio", "latency", "false", "any of 6", "at x"), 0)
    advertised = []
    for _ in range(studies):
        first, twin, *others = simulate(rng, [1.0] * 7, launches, machine)
        floor = noise_floor(first, twin)
        ratio = log_ratio(others[0], first)
        x = detectable(first, [others[0], twin], floor)
        assert floor is not None and ratio is not None and x is not None
        advertised.append(x)
        counts["ratio"] += ratio.low <= 0 <= ratio.high
        latency = latency_ms(first)
        counts["latency"] += latency.low <= _true_median_ms(machine) <= latency.high
        counts["false"] += can_tell_apart(first, others[0], floor)
        counts["any of 6"] += max(Ranking(dict(enumerate([first, *others])), floor).ranks.values()) > 1
    found = {key: count / studies for key, count in counts.items()}
    found["x"] = statistics.fmean(advertised)
    found["at x"] = share_found(machine, launches, studies, seed + 1, found["x"])
    return found


def share_found(machine: Machine, launches: int, studies: int, seed: int, slower: float) -> float:
    """Return how often a target that is slower by this much is found."""
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(studies):
        first, twin, second = simulate(rng, [1.0, 1.0, 1 + slower], launches, machine)
        hits += can_tell_apart(second, first, noise_floor(first, twin) or math.inf)
    return hits / studies


def found_when_advertised(machine: Machine, slower: float, studies: int, seed: int) -> tuple[float, float]:
    """Give how often a slower target is found by studies that go on until they advertise it, and their launches."""
    rng = np.random.default_rng(seed)
    hits, taken = 0, []
    for _ in range(studies):
        panel = simulate(rng, [1.0, 1.0, 1 + slower], 40, machine)
        for launches in range(2, 41):
            first, twin, second = (first_launches(one, launches) for one in panel)
            floor = noise_floor(first, twin)
            x = detectable(first, [second, twin], floor)
            if launches == 40 or (x is not None and x <= slower):
                hits += can_tell_apart(second, first, floor or math.inf)
                taken.append(launches)
                break
    return hits / studies, statistics.fmean(taken)


def stopped_early(machine: Machine, margin: float, studies: int, seed: int) -> tuple[float, float]:
    """Give the share of false verdicts, and the launches, of studies that stop when they are precise enough."""
    rng = np.random.default_rng(seed)
    wrong, taken = 0, []
    for _ in range(studies):
        panel = simulate(rng, [1.0] * 3, 40, machine)
        for launches in range(2, 41):
            first, twin, second = (first_launches(one, launches) for one in panel)
            floor = noise_floor(first, twin)
            if precision_reached(first, [second, twin], margin, floor) or launches == 40:
                wrong += can_tell_apart(first, second, floor or 0.0)
                taken.append(launches)
                break
    return wrong / studies, statistics.fmean(taken)


def decided(machine: Machine, ratios: tuple[float, ...], studies: int, seed: int) -> tuple[float, float, float, float]:
    """Give launches, what would be found, and shares of right and of wrong ranks of comparisons that ask for nothing.

    They launch until every place is decided, ten times at most. Right are those ranks that follow the truth, wrong are
    those that contradict it: equal targets distinguished, or the slower one ranked before the faster.
    """
    rng, most = np.random.default_rng(seed), MOST_DECIDING
    taken, found, right, wrong = [], [], 0, 0
    truth = [1 + sum(other < ratio for other in ratios) for ratio in ratios]
    for _ in range(studies):
        drawn = simulate(rng, [*ratios, ratios[0]], most, machine, samples=4)
        for launches in range(1, most + 1):
            *targets, twin = (first_launches(one, launches) for one in drawn)
            ranking = Ranking(dict(enumerate(targets)), noise_floor(targets[0], twin))
            if not ranking.undecided:
                break
        ranks = [ranking.ranks[key] for key in range(len(ratios))]
        right += ranks == truth
        pairs = [(i, j) for i in range(len(ratios)) for j in range(len(ratios)) if ratios[i] <= ratios[j]]
        wrong += any(ranks[i] > ranks[j] for i, j in pairs)
        taken.append(launches)
        found.append(ranking.found_from((targets[0], twin)) or math.inf)
    return statistics.fmean(taken), statistics.fmean(found), right / studies, wrong / studies


def _true_median_ms(machine: Machine) -> float:
    """Give the median of very many launches."""
    samples = simulate(np.random.default_rng(0), [1.0], 20_000, machine, rounds=1)[0].values
    return float(np.median(samples)) / 1e6


def rows(studies: int) -> Iterator[tuple[str, ...]]:
    """Give the rows of the first table."""
    for name, machine in MACHINES.items():
        for launches in (1, 2, 3, 5, 10):
            found = verdicts(machine, launches, studies, seed=launches)
            shares = (f"{found[key]:.1%}" for key in ("ratio", "latency", "false", "any of 6", "x", "at x"))
            yield (name, str(launches), *shares)


def _share(text: str) -> float:
    return float(text.rstrip("%")) / 100


def main(studies: str = "100") -> int:
    """Print the tables; 1 if a promise is broken by more than chance."""
    table = list(rows(int(studies)))
    show(
        f"{studies} studies each: coverage of 95 % intervals, false verdicts, differences found",
        ("machine", "launches", "ratio", "latency", "false", "6 equal", "advertised x", "x found"),
        table,
        name="statistics_verdicts",
    )
    goals = []
    for slower in (0.10, 0.05, 0.03):
        found, launches = found_when_advertised(Machine(process=0.01, noise=0.03), slower, int(studies), seed=5)
        goals.append((f"{slower:.0%} slower, stopped when that is advertised", f"{launches:.1f}", f"{found:.1%} found"))
    for margin in (0.05, 0.03, 0.02):
        wrong, launches = stopped_early(Machine(), margin, int(studies), 6)
        goals.append((f"equal, stopped at margin {margin:.0%}", f"{launches:.1f}", f"{wrong:.1%} false"))
    show(
        "Sensitivity, and stopping when precise enough",
        ("study", "launches", "verdicts"),
        goals,
        name="statistics_stopping",
    )
    by_default = []
    for name, machine in MACHINES.items():
        for ratios in ((1.0, 1.0, 1.0), (1.0, 1.1), (1.0, 1.05, 1.4)):
            launches, found, right, wrong = decided(machine, ratios, int(studies), seed=7)
            truth = " ".join(f"{ratio:g}" for ratio in ratios)
            by_default.append((name, truth, f"{launches:.1f}", f"{found:.1%}", f"{right:.0%}", f"{wrong:.0%}"))
    headers = ("machine", "really", "launches", "would be found", "ranked so", "wrong")
    show("Launched until every place is decided, ten times at most", headers, by_default, name="statistics_deciding")
    rng, steady = np.random.default_rng(3), []
    for shape in WARM_UPS:
        ends = [steady_from(warm_up(rng, shape, 150)) for _ in range(int(studies))]
        known = [end for end in ends if end is not None]
        median = f"{statistics.median(known):.0f}" if known else "–"
        steady.append((shape, median, f"{max(known)}" if known else "–", f"{1 - len(known) / len(ends):.0%}"))
    show("Steady state of 150 calls", ("series", "median start", "latest", "never"), steady)
    tolerance = 3 * math.sqrt(0.05 * 0.95 / int(studies))
    broken = [row for row in (*table, *by_default) if _share(row[4] if row in table else row[5]) > 0.05 + tolerance]
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
