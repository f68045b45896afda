"""Analytic: how long instructions take, by what their tiles cost, without events.

Tiles go through engines one behind the other, and engines work at the same time. So some tiles that follow each other
take as long as the engine that has most to do for them::

    Σ max(load, matrix, vector, store, issue)

and as there is room for so many tiles only, no less than all that is done for them, one after the other, by their
number. To that comes what nothing hides: the first tile on its way to the engine that decides, and the last one from
there. The event simulation knows queues, regions and the scoreboard; this knows none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atalla.device.hardware import Hardware
from atalla.device.simulation import Simulation, TileCost


NAMES = ("load", "store", "matrix", "vector", "issue", "room", "weights")
TOGETHER = 4
"""Tiles that are under way at once, at most: as many as engines follow each other."""


@dataclass(frozen=True)
class InstructionEstimate:
    """What an instruction should take."""

    number: int
    """In the blob."""
    cycles: int
    """In all."""
    simulated: int
    """What the event simulation says."""
    bound: str
    """The engine that decides: ``load``, ``store``, ``matrix``, ``vector`` or ``issue``; ``room`` or ``weights`` where
    scratchpads hold too few tiles to keep one busy."""

    @property
    def error(self) -> float:
        """Relative difference from the event simulation."""
        return self.cycles / self.simulated - 1 if self.simulated else 0.0


def estimate(simulation: Simulation) -> tuple[InstructionEstimate, ...]:
    """Return what each instruction should take, of those that the device runs."""
    tiles: dict[int, list[TileCost]] = {}
    for tile in simulation.tiles:
        tiles.setdefault(tile.instruction, []).append(tile)
    found = []
    for one in simulation.instructions:
        cycles, bound = instruction_cycles(
            tiles.get(one.number, ()), simulation.hardware, one.slots, one.weight_slots
        )
        if not one.is_host:
            found.append(InstructionEstimate(one.number, cycles, one.cycles, bound))
    return tuple(found)


def instruction_cycles(
    tiles: Sequence[TileCost], hardware: Hardware, slots: int, weight_slots: int
) -> tuple[int, str]:
    """Return the cycles of an instruction, and the engine that decides.

    Args:
        tiles: what they cost, in order.
        hardware: that they were cut for.
        slots: tiles that have room at once.
        weight_slots: weights that have; 0 where there are none.
    """
    if not tiles:
        return 0, "issue"
    together = max(1, min(slots, TOGETHER))
    steps, spent, window, seen = 0.0, dict.fromkeys(NAMES, 0), dict.fromkeys(NAMES, 0), 0

    def close() -> float:
        return max(window.values(), default=0)

    for tile in tiles:
        costs = {**tile.cycles._asdict(), "issue": tile.operations * hardware.issue_cycles}
        costs["room"] = -(-sum(tile.cycles) // max(1, slots)) if slots else 0
        costs["weights"] = -(-(tile.cycles.load + tile.cycles.matrix) // weight_slots) if weight_slots else 0
        left = tile.count
        while left:
            here = min(left, together - seen) if seen or left < together else left - left % together
            for name, cycles in costs.items():
                window[name] += here * cycles
            seen, left = seen + here, left - here
            if seen >= together:
                steps += close()
                for name in NAMES:
                    spent[name] += window[name]
                window, seen = dict.fromkeys(NAMES, 0), 0
    steps += close()
    for name in NAMES:
        spent[name] += window[name]
    bound = max(NAMES, key=lambda name: spent[name])
    first, last = tiles[0].cycles, tiles[-1].cycles
    before = {
        "load": 0, "matrix": first.load, "vector": first.load + first.matrix,
        "store": first.load + first.matrix + first.vector, "issue": 0, "room": 0, "weights": 0,
    }[bound]  # fmt: skip
    behind = {
        "load": last.matrix + last.vector + last.store, "matrix": last.vector + last.store, "vector": last.store,
        "store": 0, "issue": last.store, "room": sum(last) - sum(last) // max(1, slots),
        "weights": last.vector + last.store,
    }[bound]  # fmt: skip
    return round(steps) + before + behind, bound
