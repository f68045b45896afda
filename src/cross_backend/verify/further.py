"""Further inputs of a sample file: probes, the user's own inputs, and the steps of a sequence of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Arrays = Sequence[np.ndarray[Any, Any]]

PROBE, STEP, OWN = "probe", "step", "own"


@dataclass(frozen=True)
class KnownInput:
    """One input beside the sample: a probe, or a step of a sequence of calls."""

    name: str
    inputs: Arrays
    expected: Arrays
    rounding: float
    """As the sample's, of this input."""


def further_groups(kind: str, rows: Iterable[tuple[str, Arrays, Arrays, float]]) -> dict[str, Arrays]:
    """Return the groups of a sample file that hold further inputs of a kind, in order."""
    import numpy as np

    groups: dict[str, Arrays] = {}
    for index, (name, inputs, expected, rounding) in enumerate(rows, 1):
        groups |= {
            f"{kind}{index}": inputs,
            f"{kind}{index}.expected": expected,
            f"{kind}{index}.rounding": [np.array(rounding)],
            f"{kind}{index}.name": [np.frombuffer(name.encode(), np.uint8)],
        }
    return groups


def further_of(kind: str, sample: Mapping[str, Arrays]) -> Iterator[KnownInput]:
    """Yield the further inputs of a sample, in order."""
    index = 1
    while f"{kind}{index}" in sample:
        group = f"{kind}{index}"
        name = bytes(sample[f"{group}.name"][0]).decode(errors="replace")
        yield KnownInput(name, sample[group], sample[f"{group}.expected"], float(sample[f"{group}.rounding"][0]))
        index += 1
