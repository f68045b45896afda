"""False differences and sensitivity: a target against itself, and against itself made slower by a known share.

python benchmarks/verdicts.py [--trials 2] [--load] [--keep FILE]

*Missed* is a tie of a panel that says it finds a difference as large as the injected one. Beside our verdict stands
what a reader of two runs one after the other would believe, of as many calls. Two trials take a few minutes; the
documented run is ``--trials 60 --load --keep FILE``, hours, which FILE carries over a stop.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

from _load import loaded
from _slowed import NAME, installed
from _table import show

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.launch import silent
from cross_backend.comparison.panel import conclude, run_launches
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.warm_up import warm_up
from cross_backend.exporting.export import Exported, ExportSettings, export
from cross_backend.machine import Machine
from cross_backend.measure.paired import log_ratio
from cross_backend.program.captured import Captured
from cross_backend.study.spec import StudySettings
from cross_backend.workloads import find_workload

BY_DEFAULT = (0, 10)
"""Injected percents that are compared as ``compare`` does where nobody asks for anything."""
MARGINS = {3: 0.012, 5: 0.02}
"""Others → half-width at which launching stops: 2 / 5 of it, because what is advertised is the half-width, how far the
twin seemed off, and another half-width for the chance to miss it."""
MOST_LAUNCHES = 40
CALLS = 300
"""Of each target in a launch, ten a round, where a margin is asked for."""
NAIVE = 0.05
"""What a reader of two numbers takes for a difference."""

OURS = (
    "really slower",
    "trials",
    *("said slower", "tie", "said faster"),
    "missed",
    "advertised",
    "p95 error",
    "launches",
    "s/trial",
)


@dataclass(frozen=True)
class Trial:
    """One comparison of a target with its slowed copy, or with itself."""

    percent: int
    """By how much the second is really slower."""
    seed: int
    model: str
    load: bool
    """Whether there was load of our own."""
    first_rank: int
    second_rank: int
    estimate: float
    """Second over first, ours."""
    advertised: float
    """Relative difference that the panel says it finds."""
    launches: int
    seconds: float
    mean: float
    """Second over first, mean after mean."""
    median: float
    """Second over first, median after median."""

    @property
    def verdict(self) -> str:
        """Say what the ranks say."""
        if self.first_rank == self.second_rank:
            return "tie"
        return "slower" if self.second_rank > self.first_rank else "faster"

    @property
    def wrong(self) -> bool:
        """Say whether it misleads: a tie does so where the panel says that it would have found the difference."""
        if self.percent == 0 or self.verdict != "tie":
            return self.verdict != ("slower" if self.percent else "tie")
        return self.advertised <= self.percent / 100

    @property
    def error(self) -> float:
        """How far the estimate is from the truth, relative."""
        return abs(self.estimate / (1 + self.percent / 100) - 1)


@dataclass(frozen=True)
class Pair:
    """What was exported for one injected difference."""

    percent: int
    model: str
    captured: Captured
    rows: Sequence[Exported]
    cache: Cache

    @classmethod
    def of(cls, percent: int, model: str) -> Pair:
        """Export the two."""
        cache = Cache()
        targets = ("cpu", f"{NAME}?percent={percent}" if percent else "cpu")
        captured, rows = export(find_workload(model), targets, ExportSettings(cache))
        return cls(percent, model, captured, rows, cache)

    def compare(self, seed: int, *, load: bool) -> Trial:
        """Run one trial: ours, then the naive reader's."""
        settings = self._settings(seed)
        began = time.perf_counter()
        launches, interrupted = run_launches(self.captured, self.rows, settings, self.cache, progress=silent)
        if interrupted:
            raise KeyboardInterrupt
        seconds = time.perf_counter() - began
        panel = conclude(self.captured.workload, launches, settings, self.captured.batch, Machine.here())
        first, second = panel.results
        if first.latency is None or second.latency is None or first.rank is None or second.rank is None:
            raise SystemExit(f"it could not be measured: {first.reason or second.reason}")
        found = log_ratio(second.latency, first.latency)
        assert found is not None
        calls = first.latency.count
        blocks = [self._alone(row, calls, settings) for row in self.rows]
        return Trial(
            self.percent,
            seed,
            self.model,
            load,
            first.rank,
            second.rank,
            found.ratio.value,
            panel.found_from or math.inf,
            len(launches),
            seconds,
            statistics.fmean(blocks[1]) / statistics.fmean(blocks[0]),
            statistics.median(blocks[1]) / statistics.median(blocks[0]),
        )

    def _settings(self, seed: int) -> Settings:
        if self.percent in BY_DEFAULT:
            return Settings(seed=seed)
        return Settings(
            num_runs=CALLS * MOST_LAUNCHES,
            seconds=5.0 * MOST_LAUNCHES,
            seed=seed,
            launches=StudySettings().launches,
            max_launches=MOST_LAUNCHES,
            margin=MARGINS.get(self.percent, self.percent / 250),
        )

    def _alone(self, row: Exported, calls: int, settings: Settings) -> list[int]:
        """Give the durations of so many calls in a process of their own, warmed up as ours are."""
        assert isinstance(row.artifact, Artifact) and row.resolved is not None
        with ExitStack() as stack:
            target = str(row.resolved.target)
            bench, _ = open_bench(row.artifact.payload_path, target, settings, self.cache, stack)
            warm_up(bench)
            found: list[int] = bench.sample(calls, 0, settings.timeout_s).ns
            return found


def percentile(values: Sequence[float], share: float) -> float:
    """Give the value at place ⌈n·share⌉."""
    return sorted(values)[math.ceil(len(values) * share) - 1]


def ours(percent: int, trials: Sequence[Trial]) -> tuple[str, ...]:
    """Give a row of our table."""
    verdicts = [trial.verdict for trial in trials]
    return (
        f"{percent} %",
        str(len(trials)),
        *(str(verdicts.count(kind)) for kind in ("slower", "tie", "faster")),
        str(sum(trial.wrong and trial.verdict == "tie" for trial in trials)),
        f"{statistics.median(trial.advertised for trial in trials):.1%}",
        f"{percentile([trial.error for trial in trials], 0.95):.1%}",
        f"{statistics.fmean(trial.launches for trial in trials):.1f}",
        f"{statistics.fmean(trial.seconds for trial in trials):.0f}",
    )


def naive(percent: int, trials: Sequence[Trial]) -> Iterator[tuple[str, ...]]:
    """Give the rows of the naive reader's table: what differs from the truth by more than 5 % misleads."""
    for name in ("mean", "median"):
        ratios = [getattr(trial, name) for trial in trials]
        errors = [abs(ratio / (1 + percent / 100) - 1) for ratio in ratios]
        slower = sum(ratio > 1 + NAIVE for ratio in ratios)
        faster = sum(ratio < 1 / (1 + NAIVE) for ratio in ratios)
        shares = (f"{count / len(trials):.0%}" for count in (slower, faster))
        yield f"{percent} %", f"{name} after {name}", f"{percentile(errors, 0.95):.1%}", *shares


def broken(percent: int, trials: Sequence[Trial]) -> bool:
    """Say whether a promise is broken by more than chance."""
    wrong, count = sum(trial.wrong for trial in trials), len(trials)
    off = not percent and count >= 20 and percentile([trial.error for trial in trials], 0.95) > NAIVE
    return off or wrong > count * 0.05 + 3 * math.sqrt(count * 0.05 * 0.95)


def kept(asked: argparse.Namespace) -> dict[tuple[int, int], Trial]:
    """Read the trials of this kind that an earlier run kept."""
    if asked.keep is None or not asked.keep.exists():
        return {}
    trials = [Trial(**json.loads(line)) for line in asked.keep.read_text(encoding="utf-8").splitlines()]
    return {(t.percent, t.seed): t for t in trials if (t.model, t.load) == (asked.model, asked.load)}


def run(asked: argparse.Namespace) -> dict[int, list[Trial]]:
    """Run what is not kept yet, the differences in turn, so that all see the same hours."""
    done = kept(asked)
    pairs = {percent: Pair.of(percent, asked.model) for percent in asked.percents}
    for seed in range(asked.trials):
        for percent in asked.percents:
            if (percent, seed) in done:
                continue
            trial = done[percent, seed] = pairs[percent].compare(seed, load=asked.load)
            print(f"{percent} % trial {seed + 1}: {trial.verdict}, {trial.seconds:.0f} s", file=sys.stderr)
            if asked.keep is not None:
                with asked.keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(trial)) + "\n")
    return {percent: [done[percent, seed] for seed in range(asked.trials)] for percent in asked.percents}


def main() -> int:
    """Print the tables; 1 if a promise is broken by more than chance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2, help="of each difference")
    parser.add_argument("--percents", type=int, nargs="+", default=[0, 3, 5, 10], help="differences to inject")
    parser.add_argument("--model", default=f"{Path(__file__).with_name('_small.py')}:convolutions")
    parser.add_argument("--load", action="store_true", help="a process on every processor that is busy in bursts")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="trials that are there are not run again")
    asked = parser.parse_args()
    load = loaded(Machine.here().usable_cpus) if asked.load else nullcontext()
    with installed(), load:
        trials = run(asked)
    weather = "with load in bursts on every processor" if asked.load else "without load of our own"
    show(
        f"Ours: onnxruntime.cpu on {Path(asked.model).name} against itself, slowed, {weather}",
        OURS,
        [ours(percent, found) for percent, found in trials.items()],
    )
    show(
        "The same, one process after the other, read with the naked eye",
        ("really slower", "figure", "p95 error", "said > 5 % slower", "said > 5 % faster"),
        [row for percent, found in trials.items() for row in naive(percent, found)],
    )
    return 1 if any(broken(percent, found) for percent, found in trials.items()) else 0


if __name__ == "__main__":
    sys.exit(main())
