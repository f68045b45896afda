"""The C++ runner beside the Python session: the same XNNPACK file, one thread each, process after process in turns.

The claim: the ratio of their medians is 1.00 ± 0.02; docs/benchmarks.md says where it holds. Build the runner first:
make runner.

python benchmarks/runner_against_python.py [PAIRS] [CALLS]
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _table import show

from cross_backend.measure.quantiles import median_interval

RUNNER = Path(__file__).parent.parent / "runner" / "build" / "cross_backend_runner"
MODEL = "mobilenet_v3_small"
CLAIM = 0.02


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


def main(pairs: str = "20", calls: str = "1000") -> int:
    """Print the table; 1 if the claim does not hold, or if the machine is too loud to tell."""
    if not RUNNER.is_file():
        sys.exit(f"{RUNNER} is not there; build it with 'make runner'.")
    cli = [sys.executable, "-m", "cross_backend"]
    with tempfile.TemporaryDirectory() as folder:
        bundling = [*cli, "bundle", MODEL, "--output-dir", folder, "--backends", "xnnpack"]
        subprocess.run(bundling, check=True, capture_output=True)
        bundle, same = str(Path(folder, MODEL)), ["--threads", "1", "--json"]
        found = measured(
            [*cli, "run", bundle, "--num-runs", calls, *same],
            [str(RUNNER), bundle, "--iterations", calls, *same],
            int(pairs),
        )
    ratios = [runner / python for python, runner in found]
    ratio, (low, high) = statistics.median(ratios), median_interval(ratios)
    python_ms, runner_ms = map(statistics.median, zip(*found, strict=True))
    show(
        f"{MODEL} on XNNPACK, one thread: {pairs} processes of each, {calls} calls",
        ("", "median ms", "ratio", "95 % interval"),
        [
            ("Python session", f"{python_ms:.3f}", "1", "–"),
            ("C++ runner", f"{runner_ms:.3f}", f"{ratio:.3f}", f"{low:.3f} – {high:.3f}"),
        ],
    )
    if high - low > 2 * CLAIM:
        print(
            f"The interval is wider than ± {CLAIM:.0%}: the machine is too loud, or there are too few pairs, to tell."
        )
        return 1
    return 0 if abs(ratio - 1) <= CLAIM else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
