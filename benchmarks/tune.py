"""tune against exhaustive measuring: the regret of its winner, and the share of the measurements that it takes.

The claim: a winner that is at most 2 % slower than the best, with at most 30 % of the timed calls.

python benchmarks/tune.py [MODEL …]
"""

from __future__ import annotations

import math
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from _table import show

from cross_backend.cache import Cache
from cross_backend.comparison.site import HERE
from cross_backend.report import figures
from cross_backend.store import Store
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.tuning.bounds import Bounds
from cross_backend.tuning.halving import Rungs
from cross_backend.tuning.search import Asked, tune
from cross_backend.tuning.space import default_targets, expanded, thread_counts
from cross_backend.tuning.tuned import Tuned
from cross_backend.workloads import find_workload

MODELS = ("linear_regression", "digits_cnn", "mobilenet_v2")
MOST_REGRET, MOST_SHARE = 0.02, 0.30
ANY_DROP = Bounds(max_drop=1.0)
"""Speed alone is compared: seeded weights agree with float32 in nothing that a bound could use."""


def asked(model: str) -> Asked:
    """Return the search that ``cross-backend tune MODEL`` does."""
    targets = expanded(default_targets(), (), thread_counts(HERE.machine.usable_cpus))
    settings = StudySettings(seconds=5.0, launches=5, instruments=("memory",))
    study = StudySpec(f"tune {model}", (WorkloadSpec.find(model),), targets, settings=settings)
    return Asked(study, lambda _batch: find_workload(model), lambda one: one.target, ANY_DROP)


def regret_of(found: Tuned, whole: Tuned) -> tuple[float, str]:
    """Return how much slower the winner of a search is than the best of all by the exhaustive measurement."""
    assert found.winner is not None, "something runs"
    ratio = next(one.ratio for one in whole.tried if one.target == found.winner.target)
    return (math.inf, "–") if ratio is None else (ratio.value - 1, figures.ratio(ratio))


def main(*models: str) -> int:
    """Print the table; 1 if the claim does not hold."""
    rows, holds = [], True
    for model in models or MODELS:
        search, cache = asked(model), Cache()
        with tempfile.TemporaryDirectory() as folder, Store.open(str(Path(folder, "tune.sqlite"))) as store:
            found = tune(search, store, cache, HERE)
            whole = tune(replace(search, rungs=Rungs(is_exhaustive=True)), store, cache, HERE)
        assert found.winner is not None and whole.winner is not None, "something runs"
        regret, interval = regret_of(found, whole)
        calls, launches = found.calls / whole.calls, found.launches / whole.launches
        holds &= regret <= MOST_REGRET and calls <= MOST_SHARE
        row = (model, str(len(found.tried)), found.winner.title, whole.winner.title, interval, f"{max(regret, 0):.1%}")
        rows.append((*row, f"{calls:.0%}", f"{launches:.0%}"))
    headers = (
        "model",
        "candidates",
        "tune's winner",
        "best of all",
        "ratio to the best",
        "regret",
        "calls",
        "launches",
    )
    show("tune against measuring every candidate in full", headers, rows, name="tune")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
