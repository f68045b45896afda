"""How long ``compare`` measures where nobody asks for anything, and what difference it detects with 95 % power.

python benchmarks/time_to_verdict.py [REPETITIONS] [MODEL] [TARGET ...]
"""

from __future__ import annotations

import sys

from _table import show

from cross_backend.cache import Cache
from cross_backend.comparison.panel import conclude, run_launches
from cross_backend.comparison.settings import Settings
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.machine import Machine
from cross_backend.workloads import find_workload

FOUND_FROM, SECONDS = 0.08, 45.0
"""What it is to find, and in what time, on a quiet machine with two processors."""


def main(repetitions: str = "3", model: str = "mobilenet_v3_small", *targets: str) -> int:
    """Print the table; 1 if a comparison took longer, or would find less."""
    cache, rows, broken = Cache(), [], False
    captured, exported = export(find_workload(model), targets or ("xnnpack", "cpu", "openvino"), ExportSettings(cache))
    for seed in range(int(repetitions)):
        settings = Settings(seed=seed)
        launches, _ = run_launches(captured, exported, settings, cache)
        panel = conclude(model, launches, settings, 1, Machine.here())
        seconds = sum(launch.seconds for launch in launches)
        found = panel.found_from or float("inf")
        broken |= found > FOUND_FROM or seconds > SECONDS
        ratios = (f"{r.target.partition('.')[2] or r.target} {r.ratio.value:.3f}" for r in panel.ranked if r.ratio)
        places = " ".join(str(r.rank) for r in panel.ranked)
        rows.append((str(seed + 1), str(len(launches)), f"{seconds:.0f}", f"{found:.1%}", ", ".join(ratios), places))
    show(
        f"compare {model}, until every place is decided",
        ("run", "launches", "s", "would be found", "ratio to the first", "ranks"),
        rows,
        name="time_to_verdict",
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
