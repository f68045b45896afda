"""Probes: further inputs, chosen to reach what the sample does not, so that a wrong program shows.

A constant sample lets a mirrored kernel pass, a picture, which is never negative, a dropped ReLU. Probes have both
signs, other magnitudes, ties of rounding, values on both sides of each constant that the program compares with, the
first and last row of each embedding, and masks of all and of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.tensors import kind_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

LARGE, SMALL, TAME = 16.0, 1 / 64, 1 / 4
"""Factors of the probes that are scaled; thresholds that these do not reach are tried with the largest squared."""
GRID = 8
"""Ties of rounding are sought among multiples of 1/8."""


@dataclass(frozen=True)
class Hint:
    """What the program says of one of its inputs."""

    thresholds: tuple[float, ...] = ()
    """Values of the input at which a comparison, a clamp or a rounding changes its result."""
    rows: int | None = None
    """Rows of the table that the input indexes."""


@dataclass(frozen=True)
class ProbeInput:
    """One further input."""

    name: str
    """What it is meant to reach."""
    inputs: tuple[Array, ...]


def probes_of(inputs: Sequence[Array], hints: Sequence[Hint], seed: int = 7) -> Iterator[ProbeInput]:
    """Yield probes of the shapes and types of the inputs, the one that reaches most first.

    Args:
        inputs: the sample, NumPy arrays.
        hints: of each input.
        seed: of what is drawn.
    """
    import numpy as np

    rng = np.random.default_rng(seed)
    drawn = tuple(_drawn(x, hint, rng) for x, hint in zip(inputs, hints, strict=True))
    edges = [tuple(_on_edges(x, hint, rng, share) for x, hint in zip(drawn, hints, strict=True)) for share in (4, 1)]
    made = [
        ProbeInput("both signs", edges[0]),
        ProbeInput("negative", tuple(_times(x, -1.0, of_size=True) for x in drawn)),
        ProbeInput("thresholds", edges[1]),
        ProbeInput("large and positive", tuple(_times(x, LARGE, of_size=True) for x in drawn)),
        ProbeInput("large", tuple(_times(x, LARGE) for x in drawn)),
        ProbeInput("first of each", tuple(_filled(x, hint, first=True) for x, hint in zip(inputs, hints, strict=True))),
        ProbeInput("last of each", tuple(_filled(x, hint, first=False) for x, hint in zip(inputs, hints, strict=True))),
        ProbeInput("mask of one", tuple(_one(x) for x in inputs)),
        ProbeInput("small", tuple(_times(x, SMALL) for x in drawn)),
        ProbeInput("zeros", tuple(np.zeros_like(x) if kind_of(x) in "fc" else x for x in inputs)),
        ProbeInput("larger and positive", tuple(_times(x, LARGE**2, of_size=True) for x in drawn)),
        ProbeInput("larger and negative", tuple(_times(x, -(LARGE**2), of_size=True) for x in drawn)),
    ]
    before: list[Sequence[Array]] = [inputs]
    for probe in made:
        if not any(_same(probe.inputs, other) for other in before):
            before.append(probe.inputs)
            yield probe


def tamed(probe: ProbeInput) -> Iterator[ProbeInput]:
    """Yield a probe with smaller values, where it has any, for programs that are not stable on the probe itself."""
    found = ProbeInput(f"{probe.name}, smaller", tuple(_times(x, TAME) for x in probe.inputs))
    if not _same(found.inputs, probe.inputs):
        yield found


def resized(inputs: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> tuple[Array, ...]:
    """Return inputs of other extents: what is too long is cut off, what is too short begins again."""
    import numpy as np

    found = []
    for x, shape in zip(inputs, shapes, strict=True):
        for axis, extent in enumerate(shape):
            x = np.take(x, np.arange(extent) % max(x.shape[axis], 1), axis=axis)  # noqa: PLW2901
        found.append(np.asarray(x, order="C"))
    return tuple(found)


def is_within(inputs: Sequence[Array], sample: Sequence[Array]) -> bool:
    """Whether floating point values lie in the range of the sample's: where quantisers were calibrated."""
    pairs = [(x, s) for x, s in zip(inputs, sample, strict=True) if kind_of(x) == "f" and x.size and s.size]
    return all(float(s.min()) <= float(x.min()) and float(x.max()) <= float(s.max()) for x, s in pairs)


def _same(first: Sequence[Array], second: Sequence[Array]) -> bool:
    import numpy as np

    return all(np.array_equal(a, b, equal_nan=kind_of(a) in "fc") for a, b in zip(first, second, strict=True))


def _drawn(x: Array, hint: Hint, rng: np.random.Generator) -> Array:
    """Draw an input: floats around 0, as large as the sample's; booleans fair; whole numbers among the sample's."""
    import numpy as np

    if not x.size:
        return x
    if kind_of(x) == "f":
        wide = x.astype(np.float64)
        if not np.isfinite(wide).all():
            return x
        return np.asarray(rng.standard_normal(x.shape) * (float(np.sqrt((wide * wide).mean())) or 1.0), x.dtype)
    if kind_of(x) == "c":
        return np.asarray(rng.standard_normal(x.shape) + 1j * rng.standard_normal(x.shape), x.dtype)
    if kind_of(x) == "b":
        return np.asarray(rng.random(x.shape) < 0.5)
    if hint.rows is not None:
        found = np.asarray(rng.integers(0, hint.rows, x.shape), x.dtype)
        found.reshape(-1)[:1], found.reshape(-1)[-1:] = 0, hint.rows - 1
        return found
    return rng.permutation(x.reshape(-1)).reshape(x.shape)


def _on_edges(x: Array, hint: Hint, rng: np.random.Generator, share: int) -> Array:
    """Put one element of ``share`` on an edge: 0, a tie of rounding, a threshold, or just beside one."""
    import numpy as np

    if kind_of(x) != "f" or not x.size or not np.isfinite(x).all():
        return x
    ties = rng.integers(-4 * GRID, 4 * GRID + 1, x.shape) / GRID
    found = np.where(rng.random(x.shape) < 1 / share, ties, x.astype(np.float64))
    if hint.thresholds:
        at = np.array(hint.thresholds)[rng.integers(0, len(hint.thresholds), x.shape)]
        beside = at + rng.integers(-1, 2, x.shape) * np.maximum(np.abs(at), 1.0) * rng.choice([2.0**-10, 0.25], x.shape)
        found = np.where(rng.random(x.shape) < 0.5 / share, beside, found)
    return np.asarray(found, x.dtype)


def _times(x: Array, factor: float, *, of_size: bool = False) -> Array:
    """Return floats times a factor; of their size alone, so that all have one sign, where that is asked for."""
    import numpy as np

    if kind_of(x) != "f":
        return x
    with np.errstate(over="ignore"):  # beyond float16's range
        return np.asarray((np.abs(x) if of_size else x) * factor, x.dtype)


def _filled(x: Array, hint: Hint, *, first: bool) -> Array:
    """Fill indices with the first or last row, masks with all or none."""
    import numpy as np

    if kind_of(x) == "b":
        return np.full_like(x, first)
    if hint.rows is not None:
        return np.full_like(x, 0 if first else hint.rows - 1)
    return x


def _one(x: Array) -> Array:
    """Return a mask of which one element is set along the last axis, another in each line."""
    import numpy as np

    if kind_of(x) != "b" or not x.ndim or x.shape[-1] < 2:
        return x
    places = np.arange(x.size // x.shape[-1]).reshape(*x.shape[:-1], 1) % x.shape[-1]
    return np.asarray(np.arange(x.shape[-1]) == places)
