"""Analytic: how long instructions take, by what their tiles cost, without events.

Tiles follow each other through four engines: while one is loaded, the one before it is multiplied, and the one before
that is stored. So a step takes as long as the slowest engine needs for its tile, and an instruction as long as its steps::

    Σ over tiles of max(load, matrix, vector, store, issue)

with what no other engine hides: the first tile's load, and the last tile's way out. The event simulation knows queues,
rooms and the scoreboard; this knows none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atalla.device.hardware import Hardware
from atalla.device.simulation import Simulation, TileCost


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
    """The engine that decides: ``load``, ``store``, ``matrix``, ``vector`` or ``issue``."""

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
        cycles, bound = instruction_cycles(tiles.get(one.number, ()), simulation.hardware)
        if not one.is_host:
            found.append(InstructionEstimate(one.number, cycles, one.cycles, bound))
    return tuple(found)


def instruction_cycles(tiles: Sequence[TileCost], hardware: Hardware) -> tuple[int, str]:
    """Return the cycles of an instruction, and the engine that decides."""
    if not tiles:
        return 0, "issue"
    sums = {"load": 0, "store": 0, "matrix": 0, "vector": 0, "issue": 0}
    steps = 0
    for tile in tiles:
        costs = {**tile.cycles._asdict(), "issue": tile.operations * hardware.issue_cycles}
        for name, cycles in costs.items():
            sums[name] += tile.count * cycles
        steps += tile.count * max(costs.values())
    first, last = tiles[0].cycles, tiles[-1].cycles
    bound = max(sums, key=lambda name: sums[name])
    before = {"load": 0, "issue": 0}.get(bound, first.load)
    return steps + before + last.vector + last.store, bound
