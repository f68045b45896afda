"""Further inputs of a sample file: probes, the user's own inputs, and the steps of a sequence of calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cross_backend.verify.narrow import narrow_group, narrow_of

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
    rounding: float = 0.0
    """As the sample's, of this input."""
    scale: Arrays = ()
    """Smallest scale of each element, one array per output; empty where no element jumps."""
    narrow: Mapping[str, float] = field(default_factory=dict)
    """16-bit precision → what exact rounding to it changes; see ``verify.narrow``."""
    reaches: bool = False
    """Whether a condition of the program is reached by it, and by no input before it."""


def further_groups(kind: str, rows: Iterable[KnownInput]) -> dict[str, Arrays]:
    """Return the groups of a sample file that hold further inputs of a kind, in order."""
    import numpy as np

    groups: dict[str, Arrays] = {}
    for index, row in enumerate(rows, 1):
        group = f"{kind}{index}"
        groups |= {
            group: row.inputs,
            f"{group}.expected": row.expected,
            f"{group}.rounding": [np.array(row.rounding)],
            f"{group}.name": [np.frombuffer(row.name.encode(), np.uint8)],
        }
        if row.scale:
            groups[f"{group}.scale"] = row.scale
        if row.narrow:
            groups[f"{group}.narrow"] = narrow_group(row.narrow)
        if row.reaches:
            groups[f"{group}.reaches"] = [np.ones((), bool)]
    return groups


def further_of(kind: str, sample: Mapping[str, Arrays]) -> Iterator[KnownInput]:
    """Yield the further inputs of a sample, in order."""
    index = 1
    while f"{kind}{index}" in sample:
        group = f"{kind}{index}"
        yield KnownInput(
            bytes(sample[f"{group}.name"][0]).decode(errors="replace"),
            sample[group],
            sample[f"{group}.expected"],
            float(sample[f"{group}.rounding"][0]),
            sample.get(f"{group}.scale", ()),
            narrow_of(sample.get(f"{group}.narrow", ())),
            f"{group}.reaches" in sample,
        )
        index += 1
