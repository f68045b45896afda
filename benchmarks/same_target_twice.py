"""A/A: the same target twice must end in a tie; prints ratio, interval and verdict of every repetition.

python benchmarks/same_target_twice.py [MODEL] [REPETITIONS]
"""

from __future__ import annotations

import sys

from _table import show

import cross_backend as xb


def main(model: str = "resnet50", repetitions: str = "5") -> int:
    """Print the table; 1 if a repetition was not a tie."""
    rows, ties = [], 0
    for repetition in range(int(repetitions)):
        panel = xb.compare(model, ["cpu", "cpu"], seed=repetition)
        first, second = panel.results
        if first.ratio is None or second.ratio is None or panel.found_from is None:
            raise SystemExit(f"{model} could not be measured: {first.reason or second.reason}")
        ratio = panel.ranked[1].ratio
        assert ratio is not None
        tie = first.rank == second.rank
        ties += tie
        interval, found = f"{ratio.low:.3f} – {ratio.high:.3f}", f"{panel.found_from:.1%}"
        rows.append((str(repetition + 1), f"{ratio.value:.3f}", interval, found, "tie" if tie else "NO TIE"))
    show(
        f"A/A: onnxruntime.cpu against itself on {model}",
        ("run", "ratio", "95 % interval", "would be found", "verdict"),
        rows,
        name="same_target_twice",
    )
    return 0 if ties == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
