"""ONNX file: write a workload as one that takes any batch size, in a worker process."""

from __future__ import annotations

from pathlib import Path

from cross_backend.cache import Cache
from cross_backend.errors import UnavailableError, UsageError
from cross_backend.lowering.free_batch import WriteOnnx
from cross_backend.machine import version_of
from cross_backend.worker.process import Worker
from cross_backend.workloads import Source

_PACKAGES = ("onnx", "onnxruntime", "onnxscript", "torch")


def export_onnx_file(source: Source, path: Path, cache: Cache, timeout_s: float) -> int:
    """Write a workload's file in a worker process.

    Args:
        source: a workload that is no ONNX file.
        path: of the file; its folder exists. What was there is replaced when the new file is whole and right.
        cache: for scratch and the log.
        timeout_s: longest wait.

    Returns:
        Size in bytes.

    Raises:
        UsageError: it is an ONNX file already.
        UnavailableError: a package is missing.
        CaptureError: it cannot be built, or cannot take a free batch dimension.
        LowerError: the exporter fails.
    """
    if Path(source.text).suffix == ".onnx":
        raise UsageError(f"{source.text} is an ONNX file already; --onnx writes PyTorch models.")
    for name in _PACKAGES:
        if version_of(name) is None:
            raise UnavailableError(f"--onnx needs the package {name}", "pip install 'cross-backend[onnxruntime]'")
    with Worker(cache.log("export")) as worker:
        try:
            return worker.ask(WriteOnnx(source.text, source.weights, path.absolute(), cache.root), timeout_s)
        finally:
            worker.kill()
            cache.sweep(worker.pid)
