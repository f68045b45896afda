"""A/A: the same target twice must end in a tie; prints ratio, interval and verdict of every repetition.

python benchmarks/same_target_twice.py [MODEL] [REPETITIONS]
"""

from __future__ import annotations

import math
import sys

from _table import show

import cross_backend as xb
from cross_backend.measure.statistics import paired_ratio


def main(model: str = "resnet50", repetitions: str = "5") -> int:
    """Print the table; 1 if a repetition was not a tie."""
    rows, ties = [], 0
    for repetition in range(int(repetitions)):
        panel = xb.compare(model, ["cpu", "cpu"], seed=repetition)
        first, second = panel.results
        if first.latency is None or second.latency is None or panel.noise_floor is None:
            raise SystemExit(f"{model} could not be measured: {first.reason or second.reason}")
        ratio = paired_ratio(first.latency, second.latency)
        tie = first.rank == second.rank
        ties += tie
        interval = f"{ratio.low:.3f} – {ratio.high:.3f}" if ratio else "too few rounds"
        value = f"{ratio.value:.3f}" if ratio else "–"
        rows.append(
            (str(repetition + 1), value, interval, f"{math.expm1(panel.noise_floor):.1%}", "tie" if tie else "NO TIE")
        )
    show(
        f"A/A: onnxruntime.cpu against itself on {model}",
        ("run", "ratio", "95 % interval", "noise floor", "verdict"),
        rows,
    )
    return 0 if ties == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
