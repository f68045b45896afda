"""Shown: what is drawn of a model's outputs, JSON values throughout, in the units of what was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.errors import RunError
from cross_backend.serialization import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

TOP = 5
"""Classes that are shown."""


@dataclass(frozen=True)
class Share:
    """One class and its share of the probability."""

    label: str
    """Name of the class, ``#12`` where it has none."""
    index: int
    """Of the output."""
    share: float
    """0 to 1; those of all classes add to 1."""


@dataclass(frozen=True)
class Box:
    """One object that was found."""

    label: str
    """Name of its class."""
    index: int
    """Of its class."""
    score: float
    """0 to 1."""
    x0: float
    """Left edge, pixels of the source picture."""
    y0: float
    """Upper edge."""
    x1: float
    """Right edge."""
    y1: float
    """Lower edge."""


@dataclass(frozen=True)
class Token:
    """One token of a text, as the model was given it."""

    text: str
    """Its piece of the text; its number where the vocabulary is not known."""
    index: int
    """In the vocabulary."""
    length: float | None = None
    """Euclidean length of the state that the model returned for it; None where it returns none."""


@dataclass(frozen=True)
class Shown:
    """What is shown of one run; a field that does not go with the kind stays empty."""

    kind: str
    """Of the media."""
    top: tuple[Share, ...] = ()
    """Likeliest classes, or next tokens, first."""
    boxes: tuple[Box, ...] = ()
    """Objects, surest first."""
    tokens: tuple[Token, ...] = ()
    """The text as the model was given it, filling left out."""
    numbers: tuple[float, ...] = ()
    """The outputs themselves."""
    width: int | None = None
    """Of the source picture, upright; pixels."""
    height: int | None = None
    seconds: float | None = None
    """Length of the source sound."""
    waveform: tuple[tuple[float, float], ...] = ()
    """Lowest and highest value, -1 to 1, of consecutive pieces of the sound."""
    lengths: tuple[float, ...] = ()
    """Euclidean length of the outputs' states over consecutive pieces of the sound."""
    pixels: tuple[tuple[float, ...], ...] = ()
    """Rows of the small picture that the model was given: 0 paper, 1 ink."""
    caveats: tuple[str, ...] = ()
    """What has to be known about the answer, one sentence each."""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value; what is empty is left out."""
        return {key: value for key, value in to_json(self).items() if value not in (None, [], ())}


def top_shares(logits: np.ndarray[Any, Any], labels: Sequence[str]) -> tuple[Share, ...]:
    """Return the likeliest classes of one row of logits.

    Raises:
        RunError: one is not finite.
    """
    import numpy as np

    values = finite(logits).ravel()
    shares = np.exp(values - values.max())
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")[:TOP]
    return tuple(Share(label_of(int(i), labels), int(i), float(shares[i])) for i in order)


def label_of(index: int, labels: Sequence[str]) -> str:
    """Return a class's name, its number where it has none."""
    return labels[index] if index < len(labels) and labels[index] else f"#{index}"


def finite(outputs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return outputs in float64.

    Raises:
        RunError: there are none, or one is not finite.
    """
    import numpy as np

    values = np.asarray(outputs).astype(np.float64)
    if not values.size or not np.isfinite(values).all():
        raise RunError("the outputs are not finite numbers, so there is nothing to show.")
    return values
