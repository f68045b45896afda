"""Perplexity: how well an open decoder predicts each next token of held-out text; smaller is better."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.errors import RunError
from cross_backend.tensors import load_tensors, to_numpy

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.backend import Session
    from cross_backend.bench.open_artifact import OpenArtifact

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Perplexity(Reading[float]):
    """The perplexity of a decoder on a task's sequences."""

    task: Path
    """Tensor file with the group ``input``: token ids, a sequence a row."""

    def read(self, artifact: OpenArtifact) -> float:
        """Return it; the state is reset before each sequence and after the last one."""
        artifact.reset()
        try:
            return perplexity(artifact.session, load_tensors(self.task)["input"][0])
        finally:
            artifact.reset()


def perplexity(session: Session, sequences: Array) -> float:
    """Return exp of the mean negative log-likelihood of each token after those before it (natural logarithm).

    Teacher forcing: each call takes the next token of the text, whatever the program itself would choose. The first
    token of a sequence is predicted by nothing and does not count.

    Args:
        session: open; takes token ids (1, n) and the position (1,) of the first, and returns the next one's logits
            (1, ids).
        sequences: (n, tokens) ids, two tokens at least.

    Raises:
        RunError: a call fails, or its logits are not finite.
    """
    import numpy as np

    surprise = []
    for tokens in sequences:
        session.reset()
        for place, following in enumerate(tokens[1:]):
            outputs = session.bind((tokens[None, place : place + 1], np.array([place])))()
            logits = to_numpy(outputs[0]).astype(np.float64).reshape(-1)
            if not np.isfinite(logits).all():
                raise RunError(f"the logits at position {place} are not finite")
            logits -= logits.max()
            surprise.append(np.log(np.exp(logits).sum()) - logits[following])
    found = float(np.exp(np.mean(surprise)))
    if not np.isfinite(found):
        raise RunError(f"its perplexity is {found}: the text has no probability")
    return found
