"""Spans: what each engine did when, in so few numbers that a page can hold and draw them."""

from __future__ import annotations

from typing import Any

from atalla.device.simulation import ENGINES, Event, Simulation

MOST = 40_000
"""Spans of a page; micro-operations that follow each other become one span where there are more."""


def timeline(simulation: Simulation) -> dict[str, Any]:
    """Return when instructions begin, and for each its engines' spans; the simulation has events.

    A span is four numbers: cycles since the span before it ended, or since the instruction began; cycles; those of them
    in which the engine rested; the place of its kind, or minus how many micro-operations it stands for.
    """
    lanes: list[list[list[Event]]] = [[[] for _ in ENGINES] for _ in simulation.instructions]
    kinds: dict[str, int] = {}
    for event in simulation.events:
        if event.engine in ENGINES:
            lanes[event.instruction][ENGINES.index(event.engine)].append(event)
            kinds.setdefault(event.kind, len(kinds))
    most = _most([len(events) for engines in lanes for events in engines])
    spans = [
        [_flat(events, one.begin, most, kinds) for events in engines]
        for one, engines in zip(simulation.instructions, lanes, strict=True)
    ]
    return {
        "begins": [one.begin for one in simulation.instructions],
        "cycles": [one.cycles for one in simulation.instructions],
        "kinds": list(kinds),
        "spans": spans,
        "operations": sum(len(events) for engines in lanes for events in engines),
        "merged": any(len(events) > most for engines in lanes for events in engines),
    }


def _most(lengths: list[int]) -> int:
    """Return how many spans an engine may have in an instruction: halved until all together are few enough."""
    most = max(lengths, default=1)
    while most > 1 and sum(min(length, most) for length in lengths) > MOST:
        most = (most + 1) // 2
    return max(1, most)


def _flat(events: list[Event], begin: int, most: int, kinds: dict[str, int]) -> list[int]:
    step = -(-len(events) // most)
    found: list[int] = []
    for i in range(0, len(events), step or 1):
        group = events[i : i + step]
        end = group[-1].end
        busy = sum(event.end - event.begin for event in group)
        kind = kinds[group[0].kind] if len(group) == 1 else -len(group)
        found += [group[0].begin - begin, end - group[0].begin, end - group[0].begin - busy, kind]
        begin = end
    return found
