"""Accuracy: the share of a workload's held-out samples that an open session labels right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.errors import RunError
from cross_backend.instruments.instrument import Instrument, Pass

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.backend import Session
    from cross_backend.bench.open_artifact import OpenArtifact


@dataclass(frozen=True)
class Score(Reading[float]):
    """The workload's task metric."""

    task: Path
    """Tensor file with the groups ``input`` and ``label``."""

    def read(self, artifact: OpenArtifact) -> float:
        """Return the share that is right."""
        from cross_backend.tensors import load_tensors

        groups = load_tensors(self.task)
        return score(artifact.session, groups["input"][0], groups["label"][0])


def score(session: Session, samples: np.ndarray[Any, Any], labels: np.ndarray[Any, Any]) -> float:
    """Return the share of samples whose largest output is at the label (top-1 accuracy).

    Args:
        session: open, of one input; its leading extent is the batch size (1 where that is dynamic).
        samples: (n, …), in the input's own type.
        labels: (n,) class indices.

    Raises:
        RunError: the program's first output has not one row a sample.
    """
    import numpy as np

    from cross_backend.tensors import to_numpy

    leading = session.inputs[0].shape[0] if session.inputs[0].shape else 1
    batch = leading if isinstance(leading, int) else 1
    right = 0
    for start in range(0, len(samples), batch):
        given = samples[start : start + batch]
        padding = np.repeat(given[-1:], batch - len(given), axis=0)  # the last batch is filled up, and not counted
        first = to_numpy(session.bind([np.concatenate([given, padding])])()[0])
        if first.ndim == 0 or first.size % batch or (batch > 1 and first.shape[0] != batch):
            raise RunError(f"{session.target} gives {list(first.shape)} for {batch} samples; it cannot be scored.")
        answers = first.reshape(batch, -1).argmax(axis=1)[: len(given)]
        right += int((answers == labels[start : start + batch]).sum())
    return right / len(labels)


def _take(state: Pass) -> None:
    if state.task is None:
        state.absent["accuracy"] = "the workload has no task"
        return
    metric, path = state.task
    with state.attempt("accuracy"):
        state.scores[metric] = state.bench.take(Score(path))


ACCURACY = Instrument("the workload's task metric on held-out samples", (0.1, 5), _take)
