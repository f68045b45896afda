"""Accuracy: a task's metric of what an open session answers on held-out samples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.errors import RunError
from cross_backend.instruments.instrument import Instrument, Pass
from cross_backend.instruments.perplexity import Perplexity
from cross_backend.names.task_metrics import PERPLEXITY
from cross_backend.worker.question import WRITTEN

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.backend import Session
    from cross_backend.bench.open_artifact import OpenArtifact

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Score(Reading[float]):
    """The workload's task metric."""

    task: Path
    """Tensor file with the groups ``input`` and ``label``."""
    metric: str
    """``top-k accuracy``; k is 1 where it is called otherwise."""

    def read(self, artifact: OpenArtifact) -> float:
        """Return the share that is right."""
        from cross_backend.tensors import load_tensors

        groups = load_tensors(self.task)
        top = re.fullmatch(r"top-(\d+) accuracy", self.metric)
        return score(artifact.session, groups["input"], groups["label"][0], int(top[1]) if top else 1)


@dataclass(frozen=True)
class Predictions(Reading[None]):
    """All outputs on a task's samples, for a metric of the user's own, which is not run here."""

    task: Path
    outputs: Path = field(metadata=WRITTEN)
    """Tensor file: the group ``output``, samples along the first axis."""

    def read(self, artifact: OpenArtifact) -> None:
        """Write them."""
        from cross_backend.tensors import load_tensors, save_tensors

        save_tensors(self.outputs, {"output": predicted(artifact.session, load_tensors(self.task)["input"])})


def measured(metric: str, task: Path) -> Reading[float]:
    """Return what reads a metric that needs no code of the user's."""
    return Perplexity(task) if metric == PERPLEXITY else Score(task, metric)


def predicted(session: Session, samples: Sequence[Array]) -> list[Array]:
    """Return all outputs, samples along the first axis.

    Args:
        session: open; the leading extent of its inputs is the batch size (1 where that is dynamic).
        samples: (n, …) each, in the inputs' own types.

    Raises:
        RunError: an output has not one row a sample.
    """
    import numpy as np

    from cross_backend.tensors import to_numpy

    leading = session.inputs[0].shape[0] if session.inputs[0].shape else 1
    batch = leading if isinstance(leading, int) else 1
    rows: list[list[Array]] = []
    for start in range(0, len(samples[0]), batch):
        given = [x[start : start + batch] for x in samples]
        count = len(given[0])
        filled = [np.concatenate([x, np.repeat(x[-1:], batch - count, axis=0)]) for x in given]
        session.reset()  # no sample is answered on what an earlier one left
        outputs = [to_numpy(x) for x in session.bind(filled)()]
        found = []
        for output in outputs:
            if output.ndim == 0 or output.size % batch or (batch > 1 and output.shape[0] != batch):
                raise RunError(
                    f"{session.target} returns {list(output.shape)} for {batch} samples; it cannot be scored."
                )
            per_sample = output if output.shape[0] == batch else output[None]
            found.append(np.array(per_sample[:count]))  # the last batch was filled up
        rows.append(found)
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


def score(session: Session, samples: Sequence[Array], labels: Array, among: int = 1) -> float:
    """Return the share of samples whose label is the index of one of the largest outputs (top-k accuracy).

    Args:
        session: see :func:`predicted`.
        samples: likewise.
        labels: (n,) class indices.
        among: k.

    Raises:
        RunError: an output has not one row a sample.
    """
    import numpy as np

    first = predicted(session, samples)[0].reshape(len(labels), -1)
    if among == 1:
        return float((first.argmax(axis=1) == labels).mean())
    best = np.argsort(first, axis=1)[:, -among:]
    return float((best == labels[:, None]).any(axis=1).mean())


def _take(state: Pass) -> None:
    if state.task is None:
        state.absent["accuracy"] = "the workload has no task"
        return
    metric, path = state.task
    with state.attempt("accuracy"):
        state.scores[metric] = state.bench.take(measured(metric, path))


ACCURACY = Instrument("the workload's task metric on held-out samples", (0.1, 5), _take)
