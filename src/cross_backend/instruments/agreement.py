"""Agreement: how like its float32 sibling's are the answers of a target of lower precision, on many inputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.bench.reading import Reading
from cross_backend.errors import RunError
from cross_backend.records import Agreement
from cross_backend.tensors import kind_of
from cross_backend.verify.deviation import decibels

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.bench.open_artifact import OpenArtifact

    Arrays = tuple[np.ndarray[Any, Any], ...]

INPUTS = 32
"""Inputs on which targets are compared."""
SECONDS = 60.0
"""Most seconds of one target; fewer inputs where it would take longer."""
MOST_BYTES = 1 << 30
"""Of all outputs of one target; fewer inputs where they were more."""
TOP = 5
SEED = 0


@dataclass(frozen=True)
class Answers(Reading[int]):
    """What an open session returns on each of many inputs, written as one file an input."""

    inputs: Path
    """Tensor file: a group an input."""
    folder: Path
    """An empty folder on this machine."""
    most: int

    def read(self, artifact: OpenArtifact) -> int:
        """Return how many were written."""
        from cross_backend.tensors import load_tensors, save_tensors, to_numpy

        groups = list(load_tensors(self.inputs).values())[: self.most]
        for index, tensors in enumerate(groups):
            outputs = [to_numpy(x) for x in artifact.session.bind(tensors)()]
            save_tensors(self.folder / f"{index}.npz", {"output": outputs})
        return len(groups)


def many_inputs(calibration: Sequence[Sequence[Any]], sample: Sequence[Any]) -> list[Arrays]:
    """Return :data:`INPUTS` inputs: those that quantisers observe, then ones drawn like the sample.

    Args:
        calibration: flat arrays of each; the sample alone where the model has none.
        sample: flat arrays. Floats are drawn from a normal distribution of the same mean and spread, whole numbers
            from those of the sample. An array of two different values is a mask, and stays.
    """
    import numpy as np

    rng = np.random.default_rng(SEED)
    found = [tuple(row) for row in calibration[:INPUTS]]
    while len(found) < INPUTS:
        found.append(tuple(_drawn(np.asarray(x), rng) for x in sample))
    return found


def _drawn(x: np.ndarray[Any, Any], rng: np.random.Generator) -> np.ndarray[Any, Any]:
    import numpy as np

    if kind_of(x) == "b" or x.size == 0:
        return x
    values = np.unique(x)
    if len(values) <= 2 and x.size > 2:
        return x
    if kind_of(x) != "f" or not np.isfinite(x).all():
        return np.asarray(rng.choice(values, x.shape), x.dtype)
    wide = x.astype(np.float64)
    return np.asarray(wide.mean() + (wide.std() or 1.0) * rng.standard_normal(x.shape), x.dtype)


def agreement(target: str, wanted: Path, found: Path, count: int) -> Agreement:
    """Compare what two targets gave on the same inputs.

    SQNR is 10·log₁₀(Σ reference² / Σ (reference − output)²) in decibels, over the elements of all inputs.

    Args:
        target: of the reference.
        wanted: folder with its answers.
        found: folder with those of the other.
        count: inputs.

    Raises:
        RunError: they gave different outputs.
    """
    import numpy as np

    from cross_backend.tensors import load_tensors

    same, near, classes = 0, 0, True
    signal: list[float] = []
    noise: list[float] = []
    worst, worst_db = 0, math.inf
    for index in range(count):
        a, b = (load_tensors(folder / f"{index}.npz")["output"] for folder in (wanted, found))
        if [x.shape for x in a] != [x.shape for x in b]:
            raise RunError(f"it returns other outputs than {target}.")
        signal, noise = signal or [0.0] * len(a), noise or [0.0] * len(a)
        powers = []
        for place, (want, have) in enumerate(zip(a, b, strict=True)):
            wide = want.astype(np.float64)
            powers.append((float(np.square(wide).sum()), float(np.square(wide - have.astype(np.float64)).sum())))
            signal[place] += powers[-1][0]
            noise[place] += powers[-1][1]
        db = min(decibels(*power) for power in powers)
        if db < worst_db:
            worst, worst_db = index, db
        classes = classes and _is_scores(a[0])
        if classes:
            wanted_first, found_first = a[0].argmax(axis=1), b[0]
            same += int((wanted_first == found_first.argmax(axis=1)).all())
            best = np.argsort(found_first, axis=1)[:, -TOP:]
            near += int((best == wanted_first[:, None]).any(axis=1).all())
    return Agreement(
        target,
        count,
        same / count if classes else None,
        near / count if classes and a[0].shape[1] > TOP else None,
        tuple(decibels(*power) for power in zip(signal, noise, strict=True)),
        worst,
        worst_db,
    )


def _is_scores(first: np.ndarray[Any, Any]) -> bool:
    """Whether it is one score a class, of each row."""
    return first.ndim == 2 and first.shape[1] >= 2 and kind_of(first) == "f"
