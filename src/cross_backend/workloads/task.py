"""A task of the user's own: held-out data and a metric, from a function of a Python file."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cross_backend.errors import CaptureError, UsageError
from cross_backend.names.task_metrics import NAMED, PERPLEXITY, SMALLER_IS_BETTER, TOP
from cross_backend.tensors import TensorSpec, kind_of, to_numpy
from cross_backend.workloads.own_inputs import digest_of
from cross_backend.workloads.user_files import call_function
from cross_backend.workloads.workload import Task

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
    ``"top-5 accuracy"``, or a function of (outputs, labels) that returns a number, larger being better. A decoder with
    state is scored by ``(tokens, None, "perplexity")``: token ids, a sequence a row; smaller is better.

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
    if metric == PERPLEXITY:
        if labels is not None:
            raise CaptureError(f"{text}: {PERPLEXITY} takes (tokens, None, {PERPLEXITY!r}): the tokens are the labels.")
        return Task(metric, to_numpy(samples) if hasattr(samples, "shape") else np.asarray(samples))
    arrays = tuple(to_numpy(x) for x in (samples if isinstance(samples, tuple) else (samples,)))
    found = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels)
    counts = {len(x) if x.ndim else 0 for x in (*arrays, found)}
    if len(counts) != 1 or counts == {0}:
        raise CaptureError(f"{text}: samples and labels must be as many, and one at least: {_counted(arrays, found)}.")
    if callable(metric):
        name = str(getattr(metric, "__name__", "metric"))
        if name in SMALLER_IS_BETTER:
            raise CaptureError(
                f"{text}: name your metric otherwise: of {name}, smaller is better, and of yours, larger."
            )
        return Task(name, arrays, found, metric, digest_of(file))
    if metric not in TOP:
        raise CaptureError(f"{text}: a metric is {', '.join(map(repr, NAMED))} or a function, not {metric!r}.")
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise CaptureError(f"{text}: {metric} needs one whole number a sample as label; they are {found.dtype}.")
    return Task(metric, arrays, found)


def _counted(arrays: Sequence[Any], labels: Any) -> str:
    return ", ".join([*(str(list(x.shape)) for x in arrays), f"labels {list(labels.shape)}"])


def sequences_for(task: Task, specs: Mapping[str, Sequence[TensorSpec]], name: str, most: int | None) -> Any:
    """Return the token ids of a task, a sequence a row, as a decoder takes them.

    Args:
        task: its metric is the perplexity.
        specs: ``inputs``, ``outputs`` and ``state`` of the program.
        name: of the model.
        most: positions of its caches; None where only their extents tell.

    Raises:
        CaptureError: the program is no decoder with state, or takes no such tokens.
    """
    ids = task.inputs[0] if isinstance(task.inputs, tuple) and len(task.inputs) == 1 else task.inputs
    takes = [(spec.dtype, len(spec.shape)) for spec in specs["inputs"]] == [("int64", 2), ("int64", 1)]
    shape = specs["outputs"][0].shape
    if not takes or len(shape) != 2 or not isinstance(shape[1], int) or not specs["state"]:
        raise CaptureError(
            f"{name} has no {PERPLEXITY}: that takes a model with state, of token ids int64[1, n] and the position "
            "int64[1] of the first, which returns the logits [1, ids] of the next token."
        )
    if isinstance(ids, tuple) or ids.ndim != 2 or ids.dtype.kind not in "iu" or not len(ids) or ids.shape[1] < 2:
        raise CaptureError(f"{PERPLEXITY} of {name}: give token ids, one sequence a row, of at least 2 tokens each.")
    most = most or max(int(extent) for spec in specs["state"] for extent in (*spec.shape, 1))
    if ids.shape[1] > most or not 0 <= ids.min() <= ids.max() < shape[1]:
        raise CaptureError(
            f"{PERPLEXITY} of {name}: the sequences are {list(ids.shape)} with ids {ids.min()} to {ids.max()}; at most "
            f"{most} tokens a sequence and ids below {shape[1]} are taken."
        )
    return ids.astype("int64")


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
