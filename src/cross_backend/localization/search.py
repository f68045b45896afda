"""Search: the boundary between backend and reference moves until the part that is wrong is as small as it gets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cross_backend.localization.errors_by_node import errors_by_node
from cross_backend.localization.found import Culprit, NodeError
from cross_backend.localization.parts import CRASH, RIGHT, UNKNOWN, WRONG, Parts, TriedPart
from cross_backend.localization.whole import Values

MOST_SHOWN_BYTES = 512 << 20
"""Of all values of a program; larger ones are not asked for."""
NEXT = 2
"""How many operators further a cut goes where a part cannot be lowered."""


@dataclass(frozen=True)
class SearchEnd:
    """Where a search ended."""

    culprit: Culprit
    numbers: tuple[int, ...]
    """Of the operators."""
    says: str
    tried: TriedPart | None = None
    """The part that is wrong; None where none was alone."""


def bound_of(count: int) -> int:
    """Return the most parts that a search may lower."""
    return math.ceil(math.log2(max(count, 1))) + 3


def search(parts: Parts, other: Values, rounded: Values) -> tuple[SearchEnd, list[NodeError]]:
    """Find the smallest part that is wrong on the backend.

    All values of the program are asked for first, in one lowering. Where they show an operator that is off on its own
    inputs, it is tried alone. Else the boundary is bisected: operators before it on the backend, the rest in the
    reference. Last, the operator at the boundary is tried alone, and with its neighbours.

    Args:
        parts: lowers and judges.
        other: values of another input; see :func:`errors_by_node`.
        rounded: values under other rounding errors.
    """
    rows = [] if parts.crash else _shown(parts, other, rounded)
    found = _near(parts, rows)
    return (found or _bisected(parts)), rows


def _shown(parts: Parts, other: Values, rounded: Values) -> list[NodeError]:
    """Lower the program with all of its values as outputs, and return how far each is off."""
    everything = range(len(parts.whole.units))
    size = sum(one.nbytes for one in parts.values.values())
    if len(everything) < NEXT or size > MOST_SHOWN_BYTES:
        return []
    names = [name for name in parts.names(everything) if name in parts.values]
    tried = parts.attempt("the program with all its values as outputs", everything, names)
    return errors_by_node(parts.whole, parts.values, other, rounded, tried.got, parts.case.precision)


def _near(parts: Parts, rows: Sequence[NodeError]) -> SearchEnd | None:
    """Try the operators alone that are off on their own inputs: the first, and the one that is off most."""
    off = [row for row in rows if row.parts]
    if not off:
        return None
    worst = max(off, key=lambda row: row.local / row.rounding)
    units = parts.whole.units
    both = (off[0], worst)
    numbers = list(dict.fromkeys(at for row in both for at, unit in enumerate(units) if row.node in unit))
    tries = parts.try_all([(f"{units[at][0]} alone", [at]) for at in numbers])
    for at, tried in zip(numbers, tries, strict=True):
        if tried.trial.outcome == WRONG:
            return _operator(parts, at, tried)
    return None


def _operator(parts: Parts, at: int, tried: TriedPart) -> SearchEnd:
    how = "fails" if parts.crash else "is wrong"
    says = f"{parts.whole.units[at][0]} {how} on its own, with the inputs that it has in the program."
    return SearchEnd(Culprit.OPERATOR, (at,), says, tried)


def _bisected(parts: Parts) -> SearchEnd:
    low, high = 0, len(parts.whole.units)
    bad = CRASH if parts.crash else WRONG
    seen: TriedPart | None = None
    while high - low > 1 and parts.left > 0:
        for at in _cuts(low, high):
            if parts.left <= 0:
                break
            tried = parts.attempt(f"operators 1 to {at} of {len(parts.whole.units)}", range(at))
            if tried.trial.outcome == bad:
                high, seen = at, tried
                break
            if tried.trial.outcome == RIGHT:
                low = at
                break
        else:
            break
    if high - low > 1:
        return SearchEnd(Culprit.UNSURE, tuple(range(low, high)), _between(parts, low, high))
    return _alone(parts, high - 1, seen, bad)


def _cuts(low: int, high: int) -> list[int]:
    """Return where to cut: in the middle, then beside it, where that part cannot be lowered."""
    middle = (low + high) // 2
    near = sorted(range(low + 1, high), key=lambda at: abs(at - middle))
    return near[: 2 * NEXT + 1]


def _between(parts: Parts, low: int, high: int) -> str:
    first, last = parts.whole.units[low][0], parts.whole.units[high - 1][0]
    unknown = sum(one.trial.outcome == UNKNOWN for one in parts.tried)
    why = f"{unknown} parts could not be lowered" if unknown else f"the bound of {parts.bound} lowerings is reached"
    return f"It begins between {first} and {last}; {why}."


def _alone(parts: Parts, at: int, seen: TriedPart | None, bad: str) -> SearchEnd:
    """Try the operator at the boundary alone and with those before it; then with more of its neighbours."""
    name = parts.whole.units[at][0]
    group = parts.whole.closed({at} | parts.whole.producers({at}))
    asked = [(f"{name} alone", [at])]
    if len(group) > 1 and parts.left > 1:
        asked.append((f"{name} with what it takes", group))
    tries = parts.try_all(asked)
    if tries[0].trial.outcome == bad:
        return _operator(parts, at, tries[0])
    for tried in tries[1:]:
        if tried.trial.outcome == bad:
            return _fused(parts, group, tried)
    grown = set(group)
    while parts.left > 0:
        wider = parts.whole.closed(grown | parts.whole.producers(grown) | parts.whole.consumers(grown))
        if len(wider) == len(grown):
            break
        grown = set(wider)
        tried = parts.attempt(f"{len(grown)} operators around {name}", grown)
        if tried.trial.outcome == bad:
            return _fused(parts, sorted(grown), tried)
    if seen is None:
        says = f"It vanishes as soon as the boundary moves: only the whole program shows it, up to {name}: fusion."
    else:
        says = f"It begins at {name}, which is right alone and beside its neighbours: fusion with what is before it."
    return SearchEnd(Culprit.UNSURE, (at,), says, seen)


def _fused(parts: Parts, numbers: Sequence[int], tried: TriedPart) -> SearchEnd:
    names = ", ".join(parts.whole.units[at][0] for at in numbers)
    says = f"No operator is wrong on its own; together they are: it is the fusion across {names}."
    if parts.crash:
        says = f"The backend fails on {names} together."
    return SearchEnd(Culprit.GROUP, tuple(numbers), says, tried)
