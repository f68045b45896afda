"""Analytic: how long instructions take, by what their tiles cost, without events.

Tiles go through engines one behind the other: loaded, multiplied, worked on by the vector unit, stored. A stage of a
tile begins when the stage before it and the same engine's tile before it are done, so all takes as long as the longest
way through the table of tiles and engines: the makespan of a flow shop (Johnson, *Optimal two- and three-stage
production schedules with setup times included*, 1954). Where tiles are alike that is the largest of an engine's costs
for each, and once the others' costs of a tile. As there is room for so many frames and weights only, a load also waits
for those before it to leave.

This knows tiles only: no micro-operations, queues, regions, or scoreboard, which the event simulation has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atalla.device.hardware import Hardware
from atalla.device.simulation import Simulation, TileCost

ALIKE = 64
"""Tiles that are alike are looked at one by one up to here; the rest is multiplied."""
PERIOD = 24
"""Tiles after which those that are alike repeat themselves: a multiple of how many have room."""


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
    """What has most to do: ``load``, ``store``, ``matrix``, ``vector`` or ``issue``."""

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
        if not one.is_host:
            mine = tiles.get(one.number, ())
            cycles = instruction_cycles(
                mine, simulation.hardware, Slots(one.frames, one.ring, one.parts, one.weight_slots)
            )
            found.append(InstructionEstimate(one.number, cycles, one.cycles, bound(mine, simulation.hardware)))
    return tuple(found)


def bound(tiles: Sequence[TileCost], hardware: Hardware) -> str:
    """Return what has most to do for tiles: an engine, or ``issue``."""
    sums = {"issue": sum(tile.count * sum(tile.operations) for tile in tiles) * hardware.issue_cycles}
    for name in ("load", "store", "matrix", "vector"):
        sums[name] = sum(tile.count * getattr(tile.cycles, name) for tile in tiles)
    return max(sums, key=lambda name: sums[name])


class Slots(NamedTuple):
    """How many have room at once; as the counters say it."""

    frames: int
    ring: int
    parts: int
    weights: int


class _Engine:
    """What an engine has done with the tiles so far."""

    def __init__(self) -> None:
        self.free = 0.0
        self._count = 0
        self._works: deque[tuple[int, float, float, int]] = deque()  # first operation, begin, cycles, operations

    def work(self, begin: float, cycles: int, operations: int) -> float:
        """Do what it has to do for a tile; return when that is done."""
        begin = max(begin, self.free)
        self._works.append((self._count, begin, cycles, operations))
        self._count += operations
        self.free = begin + cycles
        return self.free

    def has_room(self, queue: int) -> float:
        """Return when no more operations wait than its queue holds."""
        wanted = self._count - queue
        while self._works and self._works[0][0] + self._works[0][3] <= wanted:
            self._works.popleft()
        if wanted < 0 or not self._works:
            return 0.0
        first, begin, cycles, operations = self._works[0]
        return begin + cycles * (wanted - first) / operations

    def shift(self, cycles: float) -> None:
        """Let everything be so much later."""
        self.free += cycles
        self._works = deque((first, begin + cycles, length, count) for first, begin, length, count in self._works)


class _Shop:
    """When each engine is done with the tiles so far, and when what has room leaves."""

    def __init__(self, hardware: Hardware, slots: Slots) -> None:
        self.hardware = hardware
        self.issued = 0.0
        self.load, self.store, self.matrix, self.vector = (_Engine() for _ in range(4))
        self.room = slots._asdict() | {"frames": max(1, slots.frames), "weights": max(1, slots.weights)}
        self.room["late"] = slots.ring
        self.left: dict[str, deque[float]] = {name: deque() for name in self.room}

    def leaves(self, name: str, time: float) -> float:
        """Note when what has room so far is gone; return when there is room for one more."""
        left, room = self.left[name], self.room[name]
        left.append(time)
        if len(left) <= room:
            return 0.0
        found = left[-room]
        left.popleft()
        return found

    def add(self, tile: TileCost) -> None:
        """Let one more tile pass."""
        cycles, operations = tile.cycles, tile.operations
        ready = self._loaded(tile)
        if tile.spread:
            begin = self.load.free - (cycles.load - tile.late - tile.before_spread)
            if not tile.begins_frame:  # it goes where the products before it still read
                begin = max(begin, self.matrix.free)
            ready = max(ready, self.vector.work(begin, tile.spread, 1))
        if others := operations.matrix - bool(tile.bias) - bool(tile.drain):
            ready = self.matrix.work(ready, cycles.matrix - tile.bias - tile.drain, others)
        if cycles.store and self.room["ring"]:
            ready = max(ready, self.leaves("ring", self.store.free))
        if tile.drain:
            ready = self.matrix.work(ready, tile.drain, 1)
        if tile.late:
            gone = self.leaves("late", self.vector.free) if self.room["ring"] else 0.0
            ready = max(ready, self.load.work(max(self.issued, gone), tile.late, 1))
        if cycles.vector > tile.spread:
            ready = self.vector.work(ready, cycles.vector - tile.spread, max(1, operations.vector - bool(tile.spread)))
        if operations.store:
            self.store.work(max(ready, self.issued), cycles.store, operations.store)

    def _loaded(self, tile: TileCost) -> float:
        """Issue a tile, as soon as queues and scratchpads have room for it; return when it is loaded."""
        for engine in (self.load, self.store, self.matrix, self.vector):
            self.issued = max(self.issued, engine.has_room(self.hardware.queue))
        if tile.early:
            self.issued = max(self.issued, self.leaves("weights", self.matrix.free))
            self.load.work(self.issued + self.hardware.issue_cycles, tile.early, 1)
        if tile.begins_frame:
            gone = max(self.matrix.free, self.vector.free, self.store.free)
            self.issued = max(self.issued, self.leaves("frames", gone))
            for name in ("ring", "late", "parts"):
                self.left[name].clear()
        if tile.loads_weights and not tile.early:
            self.issued = max(self.issued, self.leaves("weights", self.matrix.free))
        ready = self.issued + self.hardware.issue_cycles
        if tile.loads_weights and self.room["parts"]:
            ready = max(ready, self.leaves("parts", self.matrix.free))
        if tile.bias:
            self.matrix.work(ready, tile.bias, 1)
        self.issued += sum(tile.operations) * self.hardware.issue_cycles
        if not tile.operations.load:
            return ready
        operations = tile.operations.load - bool(tile.late) - bool(tile.early)
        return self.load.work(ready, tile.cycles.load - tile.late - tile.early, max(1, operations))

    def shift(self, cycles: float) -> None:
        """Let everything be so much later."""
        self.issued += cycles
        for engine in (self.load, self.store, self.matrix, self.vector):
            engine.shift(cycles)
        self.left = {name: deque(time + cycles for time in left) for name, left in self.left.items()}

    @property
    def end(self) -> float:
        """When all is done."""
        return max(self.issued, self.load.free, self.store.free, self.matrix.free, self.vector.free)


def instruction_cycles(tiles: Sequence[TileCost], hardware: Hardware, slots: Slots) -> int:
    """Return the cycles of an instruction.

    Args:
        tiles: what they cost, in order.
        hardware: that they were cut for.
        slots: how many have room at once.
    """
    shop = _Shop(hardware, slots)
    for tile in tiles:
        before = 0.0
        for i in range(min(tile.count, ALIKE)):
            if i == ALIKE - PERIOD:
                before = shop.end
            shop.add(tile)
        if tile.count > ALIKE:
            shop.shift((shop.end - before) / PERIOD * (tile.count - ALIKE))
    return round(shop.end)
