"""One row through Atalla's layers, beside what the memory delivers: the share of its bandwidth that decoding reaches.

python benchmarks/atalla_bandwidth.py [--threads 1 2] [--precisions fp32 bf16 int8] [--rounds 15]

The network is twelve layers of 4,096 to 4,096 without biases, whose weights no cache holds, and one row goes in: a call
reads every weight once, and does two operations for each. Memory is measured as BabelStream's ``dot`` does, the sum of
the products of two arrays of 256 MB, which reads and never writes; it and the calls take turns. The share is the bytes
of the packed weights over the time of a call, over the bytes that ``dot`` reads a second. The claim: at least 0.85.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _table import show

import atalla
from cross_backend.cache import Cache
from cross_backend.exporting.export import ExportSettings, export
from cross_backend.tensors import load_tensors
from cross_backend.workloads import find_workload

WIDTH, LAYERS = 4096, 12
BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
"""Of one weight."""
LEAST = 0.85
DOT = """
#include <stddef.h>
float dot(const float* a, const float* b, size_t count, int threads) {
  float sum = 0;
#pragma omp parallel for simd reduction(+ : sum) num_threads(threads) schedule(static)
  for (size_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}
"""
COUNT = 64 << 20
"""Elements of each of its arrays."""


def decode() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """Return the network and its row."""
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    return torch.nn.Sequential(*layers).eval(), (torch.randn(1, WIDTH),)


def dot_of(folder: Path) -> Any:
    """Compile the measure of the memory for this processor."""
    source, library = folder / "dot.c", folder / "dot.so"
    source.write_text(DOT, encoding="utf-8")
    flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True)
    function = ctypes.CDLL(str(library)).dot
    function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    function.restype = ctypes.c_float
    return function


def call_of(precision: str, threads: int) -> tuple[Callable[[], Any], str]:
    """Return the network's call, and the instruction set."""
    target = "atalla" if precision == "fp32" else f"atalla?precision={precision}"
    captured, (row,) = export(find_workload(f"{__file__}:decode"), [target], ExportSettings(Cache()))
    if row.artifact is None:
        raise SystemExit(f"{target}: {row.reason}")
    loaded = atalla.load(row.artifact.payload_path, threads=threads, trust=True)
    inputs = [torch.from_numpy(one) for one in load_tensors(captured.sample_path)["input"]]
    return loaded.bind(inputs), loaded.isa


def seconds(call: Callable[[], Any], count: int) -> float:
    """Return the duration of a call, by so many after one that warms up."""
    call()
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count


def main() -> int:
    """Print the table; 1 if the claim is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--precisions", nargs="*", choices=list(BYTES), default=list(BYTES))
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    arrays = [np.full(COUNT, 0.5, np.float32) for _ in range(2)]  # NumPy asks for large pages
    rows, broken, isa = [], False, ""
    with tempfile.TemporaryDirectory() as folder:
        dot = dot_of(Path(folder))
        for precision in asked.precisions:
            for threads in asked.threads:
                call, isa = call_of(precision, threads)
                read = [one.ctypes.data for one in arrays]
                size = BYTES[precision] * LAYERS * WIDTH * WIDTH
                ours, memory = [], []
                for _ in range(asked.rounds):
                    ours.append(size / seconds(call, 5))
                    memory.append(8 * COUNT / seconds(lambda: dot(*read, COUNT, threads), 2))  # noqa: B023
                share = statistics.median(one / most for one, most in zip(ours, memory, strict=True))
                broken |= share < LEAST
                mine, most = statistics.median(ours) / 1e9, statistics.median(memory) / 1e9
                rows.append((precision, str(threads), f"{mine:.1f}", f"{most:.1f}", f"{share:.2f}"))
    headers = ("weights", "threads", "Atalla GB/s", "dot GB/s", "share")
    show(f"Bandwidth of one row, {isa}", headers, rows, name="atalla_bandwidth")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
