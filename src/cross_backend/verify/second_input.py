"""A second input, made of the first: other values in the same range, so that a model takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.tensors import kind_of

if TYPE_CHECKING:
    import numpy as np

    Arrays = tuple[np.ndarray[Any, Any], ...]

SHRINK = 0.75
"""Factor of floating point values: it keeps signs, and ranges that hold 0."""


def second_inputs(inputs: Sequence[Any]) -> Iterator[Arrays]:
    """Yield inputs of the same shapes and types that differ from those given, the tamest first.

    Values are moved along the last axis, then reversed, then shuffled: indices, tokens and masks stay valid. Floating
    point values are scaled, too. The last one draws floating point values again, with the mean and spread of the old.

    Args:
        inputs: NumPy arrays.
    """
    import numpy as np

    rng = np.random.default_rng(1)

    moves: tuple[Callable[[Any], Any], ...] = (
        lambda x: np.roll(x, 1, axis=-1) if x.ndim else x,
        np.flip,
        lambda x: rng.permutation(x.reshape(-1)).reshape(x.shape),
    )
    for move in moves:
        found = tuple(_shrunk(np.array(move(x), order="C")) for x in inputs)
        if _differ(inputs, found):
            yield found
    found = tuple(_drawn(x, rng) for x in inputs)
    if _differ(inputs, found):
        yield found


def _shrunk(x: np.ndarray[Any, Any]) -> Any:
    import numpy as np

    return np.asarray(x * SHRINK, x.dtype) if kind_of(x) in "fc" else x


def _drawn(x: np.ndarray[Any, Any], rng: np.random.Generator) -> Any:
    import numpy as np

    if kind_of(x) != "f" or not x.size or not np.isfinite(x).all():
        return x
    wide = x.astype(np.float64)
    return np.asarray(wide.mean() + (wide.std() or 1.0) * rng.standard_normal(x.shape), x.dtype)


def _differ(first: Sequence[Any], second: Sequence[Any]) -> bool:
    import numpy as np

    return any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))
