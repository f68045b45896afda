"""Scoring: a workload's task metric of what a bench has open; one of the user's own is run here, not in the worker."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

from cross_backend.bench.bench import Bench
from cross_backend.errors import RunError, failing_as
from cross_backend.instruments.accuracy import Predictions, measured
from cross_backend.names.task_metrics import NAMED
from cross_backend.program.captured import Captured
from cross_backend.tensors import load_tensors
from cross_backend.workloads.task import read_task


def scored(bench: Bench, captured: Captured) -> float:
    """Return a workload's task metric of what a bench has open.

    Raises:
        CrossBackendError: the program fails, its outputs cannot be scored, or the user's own metric fails.
    """
    metric = captured.metric
    assert metric is not None, "asked of workloads with a task"
    measure = None if captured.task_from is None or metric in NAMED else read_task(captured.task_from).measure
    if measure is None:
        return bench.take(measured(metric, captured.task_path))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outputs.npz"
        bench.take(Predictions(captured.task_path, path))
        outputs = list(load_tensors(path)["output"])
    labels = load_tensors(captured.task_path)["label"][0]
    with failing_as(RunError, f"{captured.task_from}: {metric} failed"):
        value = float(measure(outputs[0] if len(outputs) == 1 else outputs, labels))
    if not math.isfinite(value):
        raise RunError(f"{captured.task_from}: {metric} returns {value}.")
    return value
