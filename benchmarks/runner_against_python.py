"""The C++ runner beside the Python session: the same XNNPACK file, one thread each, taking turns.

The claim: their medians agree within 5 %. Build the runner first: make runner.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _table import show

RUNNER = Path(__file__).parent.parent / "runner" / "build" / "cross_backend_runner"
MODEL = "mobilenet_v3_small"
ROUNDS = 9
CALLS = 300


def median_ms(command: list[str]) -> float:
    """Run a command that prints our JSON document and give the median latency of its one result."""
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    (result,) = (row for row in json.loads(done.stdout)["results"] if row["latency_ms"])
    return float(result["latency_ms"]["median"])


def main() -> int:
    """Print the table; 1 if the claim does not hold."""
    if not RUNNER.is_file():
        sys.exit(f"{RUNNER} is not there; build it with 'make runner'.")
    cli = [sys.executable, "-m", "cross_backend"]
    with tempfile.TemporaryDirectory() as folder:
        bundling = [*cli, "bundle", MODEL, "--output-dir", folder, "--backends", "xnnpack"]
        subprocess.run(bundling, check=True, capture_output=True)
        bundle = str(Path(folder, MODEL))
        commands = {
            "Python session": [*cli, "run", bundle, "--num-runs", str(CALLS), "--threads", "1", "--json"],
            "C++ runner": [str(RUNNER), bundle, "--iterations", str(CALLS), "--threads", "1", "--json"],
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, command in commands.items():
                taken[name].append(median_ms(command))
    python = taken["Python session"]
    ratios = {
        name: statistics.median(v / p for v, p in zip(values, python, strict=True)) for name, values in taken.items()
    }
    rows = [(name, f"{statistics.median(values):.3f}", f"{ratios[name]:.3f}") for name, values in taken.items()]
    show(f"{MODEL} on XNNPACK, one thread", ("", "median ms", "ratio"), rows)
    return 0 if abs(ratios["C++ runner"] - 1) <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
