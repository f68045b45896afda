"""The C++ runner beside the Python session: the same XNNPACK file, one thread each, process after process in turns.

The claim: of a model whose inferences take tens of milliseconds, the ratio of their medians is 1.00 ± 0.02, so both
measure the same. Of one that takes a millisecond the ratio shows what a call from Python costs: what it runs is no
longer in the caches after an inference. The last table measures that by itself. Build the runner first: make runner.

python benchmarks/runner_against_python.py [PAIRS]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _table import show

import cross_backend as xb
from cross_backend.measure.quantiles import median_interval

RUNNER = Path(__file__).parent.parent / "runner" / "build" / "cross_backend_runner"
MODELS = {"mobilenet_v3_small": 1000, "resnet50": 100}
"""Calls of each process, by model; the claim is about the last."""
CLAIM = 0.02
TOUCHED_MB = (0, 2, 8, 16)
"""What is read between two calls of a model that computes nothing to speak of."""
COLD_CALLS = 500


def median_ms(command: list[str]) -> float:
    """Run a command that prints our JSON document and give the median latency of its one result."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    (result,) = (row for row in json.loads(done.stdout)["results"] if row["latency_ms"])
    return float(result["latency_ms"]["median"])


def measured(python: list[str], runner: list[str], pairs: int) -> list[tuple[float, float]]:
    """Give the medians of both, pair by pair; who begins a pair ends the next, so that drift hits both alike."""
    found = []
    for number in range(pairs):
        if number % 2:
            second = median_ms(runner)
            found.append((median_ms(python), second))
        else:
            first = median_ms(python)
            found.append((first, median_ms(runner)))
    return found


def call_us(folder: Path) -> list[float]:
    """Give the median of a call of four multiplications, by how much memory was read before each; µs."""
    with xb.load(folder / "linear_regression_portable.pte") as session:
        row = np.ones((1, 4), np.float32)
        found = []
        for megabytes in TOUCHED_MB:
            memory = np.ones(megabytes * 250_000, np.float32)
            taken = []
            for _ in range(COLD_CALLS):
                memory.sum()
                begun = time.perf_counter_ns()
                session(row)
                taken.append(time.perf_counter_ns() - begun)
            found.append(statistics.median(taken) / 1e3)
    return found


def main(pairs: str = "12") -> int:
    """Print the tables; 1 if the claim does not hold, or if the machine is too loud to tell."""
    if not RUNNER.is_file():
        sys.exit(f"{RUNNER} is not there; build it with 'make runner'.")
    cli, same, rows = [sys.executable, "-m", "cross_backend"], ["--threads", "1", "--json", "--seconds", "60"], []
    with tempfile.TemporaryDirectory() as folder:
        for model, calls in MODELS.items():
            bundling = [*cli, "bundle", model, "--output-dir", folder, "--backends", "xnnpack"]
            subprocess.run(bundling, check=True, capture_output=True)
            bundle = str(Path(folder, model))
            found = measured(
                [*cli, "run", bundle, "--num-runs", str(calls), *same],
                [str(RUNNER), bundle, "--num-runs", str(calls), *same],
                int(pairs),
            )
            ratios = [runner / python for python, runner in found]
            ratio, (low, high) = statistics.median(ratios), median_interval(ratios)
            python_ms, runner_ms = map(statistics.median, zip(*found, strict=True))
            figures = (f"{python_ms:.3f}", f"{runner_ms:.3f}", f"{(python_ms - runner_ms) * 1e3:.0f}")
            rows.append((model, *figures, f"{ratio:.3f}", f"{low:.3f} – {high:.3f}"))
        exporting = [*cli, "export", "linear_regression", "--output-dir", folder, "--backends", "portable"]
        subprocess.run(exporting, check=True, capture_output=True)
        calls_us = call_us(Path(folder))
    show(
        f"XNNPACK, one thread: {pairs} processes of each in turns",
        ("", "Python session ms", "C++ runner ms", "difference µs", "ratio", "95 % interval"),
        rows,
        name="runner_against_python",
    )
    show(
        "a call of the Python session that computes nothing to speak of",
        ("memory read before it", "median µs"),
        [(f"{megabytes} MB", f"{us:.1f}") for megabytes, us in zip(TOUCHED_MB, calls_us, strict=True)],
        name="runner_calls",
    )
    if high - low > 2 * CLAIM:
        print(
            f"The interval is wider than ± {CLAIM:.0%}: the machine is too loud, or there are too few pairs, to tell."
        )
        return 1
    return 0 if abs(ratio - 1) <= CLAIM else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
