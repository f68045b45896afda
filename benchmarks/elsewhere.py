"""Another machine against this one: the same artifact on benches here, over ssh and in the C++ runner, in turns.

python benchmarks/elsewhere.py ssh://localhost [MODEL …]

The address leads back to this machine, so that only the way there differs. The claims: medians are those of a local
bench within the noise floor (the ratio of the local bench to its twin), and the runner's of ResNet-50 within 2 %; a
second panel sends nothing, and takes at most 10 % longer than a local one. Build the runner first: cross-backend
toolchain add runner-x86_64.
"""

from __future__ import annotations

import statistics
import sys
import time
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from _table import show

from cross_backend.bench.bench import Bench
from cross_backend.cache import Cache
from cross_backend.comparison.benches import open_bench
from cross_backend.comparison.panel import run_panel
from cross_backend.comparison.settings import Settings
from cross_backend.comparison.site import HERE, Site, WithPython, WithRunner
from cross_backend.comparison.sites import site_at
from cross_backend.exporting.export import Exported, ExportSettings, export
from cross_backend.places.address import parse
from cross_backend.workloads import find_workload

MODELS = ("mobilenet_v3_small", "resnet50")
TARGETS = ("executorch.xnnpack", "atalla")
ROUNDS, VISIT_S = 30, 0.15


def benches_of(row: Exported, sites: dict[str, Site], cache: Cache, stack: ExitStack) -> dict[str, Bench]:
    """Open an artifact everywhere, and a second time here."""
    assert row.artifact is not None and row.resolved is not None
    return {
        name: open_bench(row.artifact.payload_path, str(row.resolved.target), Settings(), cache, stack, site)[0]
        for name, site in {"here": HERE, "here again": HERE, **sites}.items()
    }


def medians(benches: dict[str, Bench]) -> dict[str, list[float]]:
    """Visit each bench once a round, in an order that turns; return the medians of the rounds, ns."""
    found: dict[str, list[float]] = {name: [] for name in benches}
    calls = {}
    for name, bench in benches.items():
        bench.sample(3, 1, 5)
        calls[name] = max(3, int(VISIT_S * 1e9 / statistics.median(bench.sample(5, 2, 5).ns)))
    names = list(benches)
    for turn in range(ROUNDS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            found[name].append(statistics.median(benches[name].sample(calls[name], 3, 10).ns))
    return found


def main() -> int:
    """Print both tables."""
    address, models = sys.argv[1], sys.argv[2:] or MODELS
    cache, rows, panels = Cache(), [], []
    columns: list[str] = []
    with ExitStack() as stack:
        sites = {via: stack.enter_context(site_at(parse(address), cache, via)) for via in ("python", "runner")}
        for model in models:
            captured, exported = export(find_workload(model), TARGETS, ExportSettings(cache))
            for row in exported:
                with ExitStack() as opened:
                    found = medians(benches_of(row, sites, cache, opened))
                here = found["here"]
                columns, cells = list(found)[1:], []
                for name in columns:
                    ratios = np.array(found[name]) / np.array(here)
                    low, high = np.quantile(ratios, [0.25, 0.75])
                    cells.append(f"{statistics.median(ratios):.3f} ({low:.3f} – {high:.3f})")
                rows.append((model, row.text, *cells))
            for name, site in {"here": HERE, **sites}.items():
                assert isinstance(site, WithPython | WithRunner) or site is HERE
                for turn in ("first", "second"):
                    place = getattr(site, "place", None)
                    before, began = place.pushed_bytes if place else 0, time.perf_counter()
                    panel = run_panel(captured, exported, replace(Settings(), launches=1, seconds=2), cache, site=site)
                    took = time.perf_counter() - began
                    assert panel.lost is None
                    sent = f"{place.pushed_bytes - before:,}" if place else "–"
                    panels.append((model, name, turn, f"{took:.1f} s", sent))
    show(
        f"Median call beside a local bench's, middle half of {ROUNDS} rounds in turns",
        ("model", "target", *columns),
        rows,
        name="elsewhere_median",
    )
    headers = ("model", "where", "panel", "wall time", "bytes sent")
    show("One panel of one launch", headers, panels, name="elsewhere_panel")
    return 0


if __name__ == "__main__":
    sys.exit(main())
