"""Atalla on several threads beside itself on one; wall time.

python benchmarks/atalla_threads.py [--threads 2] [--rounds 10] [--precision int8] [MODEL …]

Each model has a process of its own, in which both take turns, round after round. ``at once`` is what the processors
give models that have nothing to do with each other: as many as there are threads, each on one thread. The claims: no
interval below 1, and 1.9 for ResNet-50 and BERT on two threads. The script's status is 1 where one is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _table import show
from atalla_latency import MODELS, NARROW
from atalla_networks import NETWORKS

GOALS = {"resnet50": 1.9, "bert_base": 1.9}
"""How many times as fast two threads are to be, in float32."""


def measured(model: str, asked: argparse.Namespace) -> tuple[dict[str, list[float]], str]:
    """Return seconds of a call in each round, on one thread, on several and at once, and the instruction set."""
    import torch

    import atalla
    from cross_backend.cache import Cache
    from cross_backend.exporting.export import ExportSettings, export
    from cross_backend.tensors import load_tensors
    from cross_backend.workloads import find_workload

    target = "atalla" if asked.precision == "fp32" else f"atalla?precision={asked.precision}"
    captured, (row,) = export(find_workload(model), [target], ExportSettings(Cache()))
    if row.artifact is None:
        raise SystemExit(f"Atalla cannot take {model}: {row.reason}")
    inputs = [torch.from_numpy(one) for one in load_tensors(captured.sample_path)["input"]]

    one, several, *others = (
        atalla.load(row.artifact.payload_path, threads=threads, trust=True)
        for threads in (1, asked.threads, *[1] * asked.threads)
    )
    alone, shared, at_once = one.bind(inputs), several.bind(inputs), [other.bind(inputs) for other in others]
    times: dict[str, list[float]] = {"alone": [], "shared": [], "at once": []}
    with ThreadPoolExecutor(asked.threads) as pool:
        for _ in range(asked.rounds):
            count = _calls(alone, asked.seconds)
            times["alone"].append(_seconds(alone, count))
            times["shared"].append(_seconds(shared, count))
            began = time.perf_counter()
            list(pool.map(_seconds, at_once, [count] * len(at_once)))
            times["at once"].append((time.perf_counter() - began) / (count + 1) / len(at_once))
    return times, one.isa


def _seconds(call: Callable[[], Any], count: int) -> float:
    call()  # whoever ran before left its own data in the caches
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count


def _calls(call: Callable[[], Any], seconds: float) -> int:
    return max(1, round(seconds / _seconds(call, 1)))


def main() -> int:
    """Print the table; 1 if a claim is broken."""
    from cross_backend.measure.quantiles import median_interval

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*MODELS, *NETWORKS], help="all where none is named")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10, help="at least 6")
    parser.add_argument("--seconds", type=float, default=0.3, help="of calls on one thread in a round")
    parser.add_argument("--precision", choices=list(NARROW), default="fp32")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measured(asked.models[0], asked)))
        return 0
    rows, isa, broken = [], "", False
    for number, model in enumerate(asked.models, start=1):
        print(f"{number} of {len(asked.models)}: {model}", file=sys.stderr, flush=True)
        name = f"{Path(__file__).with_name('_networks.py')}:{model}" if model in NETWORKS else model
        command = [sys.executable, __file__, "--one", "--precision", asked.precision, "--threads", str(asked.threads)]
        command += ["--rounds", str(asked.rounds), "--seconds", str(asked.seconds), name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            rows.append((model, "failed", "–", "–", "–", ""))
            broken = True
            continue
        times, isa = json.loads(done.stdout.splitlines()[-1])
        faster = [one / several for one, several in zip(times["alone"], times["shared"], strict=True)]
        (low, high), middle = median_interval(faster), statistics.median(faster)
        most = statistics.median(one / each for one, each in zip(times["alone"], times["at once"], strict=True))
        goal = GOALS.get(model, 1.0) if asked.threads == 2 and asked.precision == "fp32" else 1.0
        milliseconds = [f"{statistics.median(times[name]) * 1e3:.2f}" for name in ("alone", "shared")]
        rows.append((model, *milliseconds, f"{middle:.2f} ({low:.2f} – {high:.2f})", f"{most:.2f}", f"{goal:g}"))
        broken |= high < goal
    headers = ("model", "one thread, ms", f"{asked.threads} threads, ms", "times as fast", "at once", "goal")
    show(f"Threads, {asked.precision}, {isa}, {asked.rounds} rounds", headers, rows, name="atalla_threads")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
