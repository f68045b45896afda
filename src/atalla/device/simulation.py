"""Simulation: what a run on the device took, instruction by instruction, as values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from atalla.device.hardware import Hardware
from atalla.device.structures import CCounters, CEvent, CTileCost
from atalla.library import library

ENGINES = ("load", "store", "matrix", "vector")
"""The DMA in, the DMA out, the matrix unit, the vector unit; in the order of their numbers."""


class Engines(NamedTuple):
    """A number for each engine."""

    load: int
    store: int
    matrix: int
    vector: int


class Stalls(NamedTuple):
    """Cycles that engines waited before a micro-operation, by what they waited for; they may wait at the same time."""

    dma_in: int
    """Data that were loaded."""
    dma_out: int
    """Results that were stored from where the next ones go."""
    matrix: int
    """The matrix unit."""
    vector: int
    """The vector unit."""
    scratchpad: int
    """Room in a scratchpad."""
    issue: int
    """Firmware."""


@dataclass(frozen=True)
class InstructionCounters:
    """What an instruction took."""

    number: int
    """In the blob."""
    operation: str
    """Its name; of a call of the host with its operator."""
    node: str
    """Of the compiled graph, or empty."""
    line: str
    """Of the model's Python, or empty."""
    shape: tuple[int, ...]
    """Of what it makes."""
    dtype: str
    """Element type of what it makes."""
    begin: int
    """Cycle in which it began; the run began in 0."""
    cycles: int
    """From its beginning to its end, where the next one begins. 0 of what the host does."""
    busy: Engines
    """Cycles in which each engine worked."""
    stalls: Stalls
    """Cycles in which engines waited."""
    operations: Engines
    """Micro-operations of each engine."""
    in_bytes: int
    """That the DMA read from memory."""
    out_bytes: int
    """That it wrote there."""
    descriptors: int
    """Of the DMA."""
    macs: int
    """Products that are added up, on whatever engine."""
    matrix_cycles: int
    """Of ``busy.matrix``: from first weights to last sums, without moving sums in or out."""
    unit_edges: int
    """The same, as another matrix unit counted it; 0 without one."""
    peak_bytes: tuple[int, int]
    """Most that was handed out of each scratchpad at once."""
    room_bytes: int
    """Of each scratchpad that were used."""
    tiles: int
    """How many."""
    frames: int
    """Frames of rows and results that have room at once."""
    ring: int
    """Tiles whose results have room in a frame; 0 where each has a frame of its own."""
    parts: int
    """Tiles whose rows have room in a frame; 0 where all rows of a frame have."""
    weight_slots: int
    """Weights that have room at once, from their load to the last product with them."""
    is_host: bool
    """Whether the host computed it."""

    def utilisation(self, hardware: Hardware) -> float:
        """Return the share of the matrix unit's elements that made a product in each cycle, on average."""
        return self.macs / (self.cycles * hardware.array**2) if self.busy.matrix else 0.0


@dataclass(frozen=True)
class TileCost:
    """What each of some tiles cost that follow each other: cycles of engines, whenever they were."""

    instruction: int
    """Its number."""
    count: int
    """Tiles."""
    cycles: Engines
    """Of one tile."""
    operations: Engines
    """Micro-operations of one tile."""
    in_bytes: int
    """That one tile loads."""
    out_bytes: int
    """That one tile stores."""
    in_descriptors: int
    """Of its loads."""
    out_descriptors: int
    """Of its stores."""
    late: int
    """Of ``cycles.load``: what only the vector unit waits for."""
    spread: int
    """Of ``cycles.vector``: before the matrix unit's."""
    before_spread: int
    """Of ``cycles.load``: what that waits for."""
    early: int
    """Of ``cycles.load``: before its frame gets room, of weights that stay."""
    bias: int
    """Of ``cycles.matrix``: sums that are set to the bias, before there are rows."""
    drain: int
    """Of ``cycles.matrix``: sums that leave for where a result before them was."""
    begins_frame: bool
    """Whether its rows and results get room, until the tile before the next such is stored."""
    loads_weights: bool
    """Whether its weights get room, until the tile before the next such is multiplied."""


@dataclass(frozen=True)
class Event:
    """A micro-operation; or a region of a scratchpad, from when it was handed out until it was free again."""

    engine: str
    """``load``, ``store``, ``matrix`` or ``vector``; ``scratchpad`` of a region."""
    kind: str
    """``DMA.LD``, ``MXU.MM`` and so on; ``SPAD`` of a region."""
    instruction: int
    """Its number."""
    tile: int
    """Of the instruction."""
    begin: int
    """Cycle."""
    end: int
    """Cycle, the first after it."""
    bytes: int
    """That the DMA moved; of a region its size."""
    scratchpad: int
    """Of a region: 0 or 1."""
    offset: int
    """Of a region: bytes from the scratchpad's beginning."""
    reads: tuple[int, ...]
    """Places in the list of events of the regions that it reads."""
    writes: tuple[int, ...]
    """The same of those that it writes."""


@dataclass(frozen=True)
class Simulation:
    """What a run took, in cycles of the device's clock. Simulated, not measured."""

    hardware: Hardware
    """On what."""
    isa: str
    """The instruction set whose arithmetic the units had."""
    instructions: tuple[InstructionCounters, ...]
    """In order, without the END."""
    tiles: tuple[TileCost, ...]
    """In order."""
    events: tuple[Event, ...] = ()
    """In the order in which firmware issued them; empty unless they were asked for."""

    @property
    def cycles(self) -> int:
        """Of all."""
        return sum(one.cycles for one in self.instructions)

    @property
    def milliseconds(self) -> float:
        """The same at the hardware's clock: an estimate."""
        return self.hardware.milliseconds(self.cycles)

    @property
    def macs(self) -> int:
        """Products that are added up."""
        return sum(one.macs for one in self.instructions)

    @property
    def in_bytes(self) -> int:
        """That the DMA read from memory."""
        return sum(one.in_bytes for one in self.instructions)

    @property
    def out_bytes(self) -> int:
        """That the DMA wrote to memory."""
        return sum(one.out_bytes for one in self.instructions)

    @property
    def utilisation(self) -> float:
        """Share of the matrix unit's elements that made a product in each cycle, on average."""
        macs = sum(one.macs for one in self.instructions if one.busy.matrix)
        return macs / (self.cycles * self.hardware.array**2) if self.cycles else 0.0

    @property
    def calls_host(self) -> bool:
        """Whether the host computed a part, whose time is not in it."""
        return any(one.is_host for one in self.instructions)


class Named(NamedTuple):
    """What an instruction is."""

    operation: str
    node: str
    line: str
    shape: tuple[int, ...]
    dtype: str


def read_simulation(context: Any, hardware: Hardware, isa: str, names: Sequence[Named]) -> Simulation:
    """Return what the last run of a context of C's took.

    Args:
        context: its handle.
        hardware: that it was made with.
        isa: its instruction set.
        names: of the instructions, without the END.
    """
    counters = _rows("atalla_device_counters", CCounters, context)
    instructions = tuple(
        InstructionCounters(
            number, *name, row.begin, row.cycles, Engines(*row.busy), Stalls(*row.stalls), Engines(*row.operations),
            row.in_bytes, row.out_bytes, row.descriptors, row.macs, row.matrix_cycles, row.unit_edges,
            tuple(row.peak_bytes), row.room_bytes, row.tiles, row.frames, row.ring,
            row.parts, row.weight_slots, bool(row.is_host),
        )
        for number, (row, name) in enumerate(zip(counters, names, strict=False))
    )  # fmt: skip
    tiles = tuple(
        TileCost(
            row.instruction, row.count, Engines(*row.cycles), Engines(*row.operations), row.in_bytes, row.out_bytes,
            row.in_descriptors, row.out_descriptors, row.late_cycles, row.spread_cycles, row.before_spread,
            row.early_cycles, row.bias_cycles, row.drain_cycles,
            bool(row.begins_frame), bool(row.loads_weights),
        )
        for row in _rows("atalla_device_tiles", CTileCost, context)
    )  # fmt: skip
    kinds = _kinds()
    events = tuple(_event(row, kinds) for row in _rows("atalla_device_events", CEvent, context))
    return Simulation(hardware, isa, instructions, tiles, events)


def _event(row: Any, kinds: Sequence[str]) -> Event:
    regions, reads = tuple(row.regions), row.read_count
    engine = ENGINES[row.engine] if row.engine < len(ENGINES) else "scratchpad"
    written = regions[reads : reads + row.write_count]
    return Event(
        engine, kinds[row.kind], row.instruction, row.tile, row.begin, row.end, row.bytes, row.scratchpad, row.offset,
        regions[:reads], written,
    )  # fmt: skip


def _kinds() -> list[str]:
    name = library().atalla_device_kind
    name.restype = ctypes.c_char_p
    found: list[str] = []
    while (text := name(ctypes.c_uint32(len(found)))) is not None:
        found.append(text.decode())
    return found


def _rows(function: str, kind: type[Any], context: Any) -> Any:
    call = getattr(library(), function)
    call.restype = ctypes.c_size_t
    count = call(context, None, ctypes.c_size_t(0))
    rows = (kind * max(count, 1))()
    call(context, rows, ctypes.c_size_t(count))
    return rows[:count]
