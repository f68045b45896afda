"""A task of the user's own: held-out data and a metric, from a function of a Python file."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cross_backend.errors import CaptureError, UsageError
from cross_backend.tensors import TensorSpec, kind_of, to_numpy
from cross_backend.workloads.own_inputs import digest_of
from cross_backend.workloads.user_files import call_function
from cross_backend.workloads.workload import Task

TOP = ("top-1 accuracy", "top-5 accuracy")
"""Metrics that need no code: among how many largest outputs the label is."""
_FORM = "(samples, labels) or (samples, labels, metric)"


def file_of_task(text: str) -> tuple[Path, str]:
    """Return the file and the function that ``FILE.py:function`` names.

    Raises:
        UsageError: it names none.
    """
    file, mark, function = text.rpartition(":")
    if not mark or not file.endswith(".py") or not function:
        raise UsageError(f"--task {text}: it takes FILE.py:function, a function that returns {_FORM}.")
    if not Path(file).is_file():
        raise UsageError(f"{file} does not exist.")
    return Path(file).resolve(), function


@functools.cache
def read_task(text: str) -> Task:
    """Run the function once in this process.

    It returns ``(samples, labels)``, arrays with one sample along their first axis (``samples`` may be a tuple of them,
    one for each input of the model), and, if it likes, a metric: ``"top-1 accuracy"`` (the default),
    ``"top-5 accuracy"``, or a function of (outputs, labels) that returns a number, larger being better.

    Raises:
        UsageError, CaptureError: it cannot be used.
    """
    import numpy as np

    file, function = file_of_task(text)
    given = call_function(file, function)
    if isinstance(given, Task):
        return given
    if not isinstance(given, tuple) or len(given) not in {2, 3}:
        raise CaptureError(f"{text} must return {_FORM}, not {type(given).__name__}.")
    samples, labels, metric = (*given, "top-1 accuracy")[:3]
    arrays = tuple(to_numpy(x) for x in (samples if isinstance(samples, tuple) else (samples,)))
    found = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels)
    counts = {len(x) if x.ndim else 0 for x in (*arrays, found)}
    if len(counts) != 1 or counts == {0}:
        raise CaptureError(f"{text}: samples and labels must be as many, and one at least: {_counted(arrays, found)}.")
    if callable(metric):
        return Task(str(getattr(metric, "__name__", "metric")), arrays, found, metric, digest_of(file))
    if metric not in TOP:
        raise CaptureError(f"{text}: a metric is {' or '.join(map(repr, TOP))}, or a function, not {metric!r}.")
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise CaptureError(f"{text}: {metric} needs one whole number a sample as label; they are {found.dtype}.")
    return Task(metric, arrays, found)


def _counted(arrays: Sequence[Any], labels: Any) -> str:
    return ", ".join([*(str(list(x.shape)) for x in arrays), f"labels {list(labels.shape)}"])


def samples_for(task: Task, specs: Sequence[TensorSpec], name: str) -> tuple[Any, ...]:
    """Return a task's samples, in the types that a program takes.

    Raises:
        CaptureError: it takes others.
    """
    import numpy as np

    arrays = task.inputs if isinstance(task.inputs, tuple) else (task.inputs,)
    if len(arrays) != len(specs):
        raise CaptureError(f"the task has samples for {len(arrays)} input(s); {name} takes {len(specs)}.")
    fitting = []
    for spec, given in zip(specs, arrays, strict=True):
        x = given.astype(spec.dtype) if given.dtype.kind == "f" and spec.dtype.startswith("float") else given
        fits = len(x.shape) == len(spec.shape) and all(
            not isinstance(want, int) or want == have for want, have in zip(spec.shape[1:], x.shape[1:], strict=True)
        )
        if not fits or str(x.dtype) != spec.dtype:
            raise CaptureError(
                f"the task's samples are {given.dtype} {list(given.shape)}; {name} takes {spec.dtype} "
                f"{list(spec.shape)} as {spec.name!r}."
            )
        if kind_of(x) == "f" and not np.isfinite(x).all():
            raise CaptureError(f"the task's samples for {spec.name!r} hold NaN or infinity.")
        fitting.append(x)
    return tuple(fitting)
