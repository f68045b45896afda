"""Atalla beside XNNPACK and eager PyTorch on networks that nobody tuned it for: float32, one thread.

python benchmarks/atalla_networks.py [--rounds 10] [NETWORK …]

The networks are those of ``_networks.py``; each is measured as ``atalla_latency.py`` does, in a process of its own.
Ratios are those of processor time, rival / Atalla. The claim: no interval below 1, and a geometric mean against
XNNPACK of 1.5. The script's status is 1 where that is broken.
"""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import _networks
from _table import show

NETWORKS = tuple(name for name, _ in inspect.getmembers(_networks, inspect.isfunction) if not name.startswith("_"))
RIVALS = {"xnnpack": ("xnnpack",), "eager": ("eager", "eager (channels last)")}
"""Column → who of these is the fastest."""
MEAN = 1.5


def measured(network: str, rounds: int) -> tuple[dict[str, list[Any]], str] | None:
    """Return wall and processor seconds of each round by runtime, and the instruction set; None where that failed."""
    folder = Path(__file__).parent
    rivals = [rival for names in RIVALS.values() for rival in names]
    command = [sys.executable, str(folder / "atalla_latency.py"), "--one", "--threads", "1", "--rounds", str(rounds)]
    command += ["--models", f"{folder / '_networks.py'}:{network}", "--rivals", *rivals]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main() -> int:
    """Print the table; 1 if a claim is broken."""
    from cross_backend.measure.quantiles import median_interval

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="all of them where none is named")
    parser.add_argument("--rounds", type=int, default=10, help="at least 6")
    asked = parser.parse_args()
    rows, isa, broken = [], "", False
    means: dict[str, list[float]] = {column: [] for column in RIVALS}
    for number, network in enumerate(asked.networks or NETWORKS, start=1):
        print(f"{number} of {len(asked.networks or NETWORKS)}: {network}", file=sys.stderr, flush=True)
        found = measured(network, asked.rounds)
        if found is None:
            rows.append((network, "failed", *("–" for _ in RIVALS)))
            broken = True
            continue
        rounds, isa = found
        cpu = {name: [one[1] for one in times] for name, times in rounds.items()}
        row = [network, f"{statistics.median(cpu['atalla']) * 1e3:.2f}"]
        for column, names in RIVALS.items():
            there = [name for name in names if name in cpu]
            if not there:
                row.append("–")
                continue
            best = min(there, key=lambda name: statistics.median(cpu[name]))
            ratios = [theirs / ours for theirs, ours in zip(cpu[best], cpu["atalla"], strict=True)]
            low, high = median_interval(ratios)
            row.append(f"{statistics.median(ratios):.2f} ({low:.2f} – {high:.2f})")
            means[column].append(statistics.median(ratios))
            broken |= high < 1
        rows.append(tuple(row))
    mean = {column: statistics.geometric_mean(ratios) if ratios else 0.0 for column, ratios in means.items()}
    rows.append(("geometric mean", "", *(f"{mean[column]:.2f}" for column in RIVALS)))
    show(
        f"Networks, fp32, {isa}, 1 thread",
        ("network", "Atalla, ms", *(f"{column} / Atalla" for column in RIVALS)),
        rows,
        name="atalla_networks",
    )
    return 1 if broken or mean["xnnpack"] < MEAN else 0


if __name__ == "__main__":
    sys.exit(main())
