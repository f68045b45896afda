"""Own overhead: a call through ``session.bind(x)()`` against the raw runtime's own call, interleaved in one process.

The claim: at most 2 µs a call (linear_regression; xnnpack, onnxruntime).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _table import show

import cross_backend as xb
from cross_backend.workloads import find_workload

CALLS = 400
ROUNDS = 101


def raw_executorch(path: str) -> Callable[[], Any]:
    """Give a call of ExecuTorch's own runtime."""
    from executorch.extension.pybindings import portable_lib

    method = portable_lib._load_for_executorch(path)
    inputs = [torch.tensor([[1.0, 2.0, 3.0, 4.0]])]
    return lambda: method.forward(inputs)


def raw_onnxruntime(path: str) -> Callable[[], Any]:
    """Give a call of ONNX Runtime's own session."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)}
    return lambda: session.run(None, feed)


def per_call_us(call: Callable[[], Any]) -> float:
    """Give the mean of a block of calls, microseconds."""
    started = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - started) / CALLS / 1000


def main() -> int:
    """Print the table; 1 if an overhead is above the claim."""
    workload = find_workload("linear_regression").build()
    program = xb.capture(workload.model, workload.inputs)
    rows, worst = [], 0.0
    with tempfile.TemporaryDirectory() as folder:
        for target, raw in (("xnnpack", raw_executorch), ("onnxruntime", raw_onnxruntime)):
            artifact = xb.lower(program, target, name="linear_regression", output_dir=Path(folder))
            with xb.load(artifact, threads=1) as session:
                ours, theirs = (
                    session.bind([np.array([[1.0, 2.0, 3.0, 4.0]], np.float32)]),
                    raw(str(artifact.payload_path)),
                )
                pairs = [(per_call_us(ours), per_call_us(theirs)) for _ in range(ROUNDS)]
            extra = statistics.median(a - b for a, b in pairs)
            worst = max(worst, extra)
            medians = [statistics.median(column) for column in zip(*pairs, strict=True)]
            ratio = statistics.median(a / b for a, b in pairs)
            rows.append((target, *(f"{m:.2f}" for m in medians), f"{extra:+.2f}", f"{ratio:.3f}"))
    show(
        "Own overhead",
        ("linear_regression", "bind(x)() µs", "raw call µs", "difference µs", "ratio"),
        rows,
        name="overhead",
    )
    return 0 if worst <= 2.0 else 1


if __name__ == "__main__":
    sys.exit(main())
