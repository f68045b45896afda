"""Export beside the naive script: one process, a capture per backend, one backend after another.

The claims: on two processors our first export takes at most 0.6 of the naive script's wall time, and from a warm cache
at most 0.05. The naive script neither verifies, nor certifies, nor stores samples.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from _table import show

MODEL = "mobilenet_v3_small"
TARGETS = ("xnnpack", "vulkan", "coreml", "portable")
ROUNDS = 3
NAIVE = """
import sys
from pathlib import Path

import torch
from cross_backend.workloads import find_workload
from executorch.exir import to_edge_transform_and_lower

def partitioners(name):
    if name == "xnnpack":
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
        return [XnnpackPartitioner()]
    if name == "vulkan":
        from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
        return [VulkanPartitioner()]
    if name == "coreml":
        from executorch.backends.apple.coreml.partition import CoreMLPartitioner
        return [CoreMLPartitioner()]
    return []

folder, model, *names = sys.argv[1:]
for name in names:
    workload = find_workload(model).build()
    program = torch.export.export(workload.model, workload.inputs)
    lowered = to_edge_transform_and_lower(program, partitioner=partitioners(name)).to_executorch()
    Path(folder, f"{model}_{name}.pte").write_bytes(lowered.buffer)
"""


def wall_s(arguments: list[str], cache: str) -> float:
    """Run a Python process and give its wall seconds."""
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, "CROSS_BACKEND_CACHE": cache},
    )
    return time.perf_counter() - started


def main() -> int:
    """Print the table; 1 if a claim does not hold."""
    naive, cold, warm = [], [], []
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as name:
            cache, folder = str(Path(name, "cache")), str(Path(name))
            ours = ["-m", "cross_backend", "export", MODEL, "--strict", "--output-dir", folder, "--backends", *TARGETS]
            naive.append(wall_s(["-c", NAIVE, folder, MODEL, *TARGETS], cache))
            cold.append(wall_s(ours, cache))
            warm.append(wall_s(ours, cache))
    ratios = {
        name: statistics.median(ours / other for ours, other in zip(values, naive, strict=True))
        for name, values in (("first export", cold), ("again, from the cache", warm))
    }
    rows = [("naive script", f"{statistics.median(naive):.1f}", "1")]
    rows += [
        (name, f"{statistics.median(values):.1f}", f"{ratios[name]:.3f}")
        for name, values in (("first export", cold), ("again, from the cache", warm))
    ]
    show(
        f"Export of {MODEL} to {', '.join(TARGETS)}",
        ("", "wall s", "ratio to naive"),
        rows,
        name="export_against_naive",
    )
    return 0 if ratios["first export"] <= 0.6 and ratios["again, from the cache"] <= 0.05 else 1


if __name__ == "__main__":
    sys.exit(main())
