"""What if: a program on a grid of devices, in numbers from which a page works out what each takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from atalla.errors import InputError, KernelError
from atalla.run.device import DryProgram

if TYPE_CHECKING:
    from atalla.device.hardware import Hardware
    from atalla.device.simulation import InstructionCounters, Simulation, TileCost

AXES = {
    "array": (8, 16, 32, 64),
    "scratchpad_bytes": tuple(32 << 10 << step for step in range(8)),
    "dma_bytes_per_cycle": (8, 16, 32, 64, 128),
}
"""Field of the hardware → stops of its slider; the hardware's own value is one more where it is none of them."""

MOST_THREADS = 8
"""Each has a context of its own, with the program's arena."""
Progress = Callable[[int, int], None]
"""Called with how many devices are done, and of how many."""


@dataclass(frozen=True)
class Grid:
    """A program on all devices of a grid; what is alike is there once."""

    axes: dict[str, tuple[int, ...]]
    """Field of the hardware → its values."""
    base: tuple[int, ...]
    """The places of the hardware's own values."""
    tiles: tuple[tuple[int, ...], ...]
    """What tiles cost; see :func:`tile_row`."""
    lists: tuple[tuple[int, ...], ...]
    """The tiles of an instruction: places in ``tiles``."""
    records: tuple[tuple[int, ...], ...]
    """What instructions took; see :func:`record_row`, then a place in ``lists``."""
    cells: tuple[tuple[int, ...] | str, ...]
    """For each device, the last field running fastest: a place in ``records`` for each instruction, or why not."""


class _Places:
    """A list without doubles: a row → its place."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, ...], int] = {}

    def of(self, row: tuple[int, ...]) -> int:
        return self._places.setdefault(row, len(self._places))

    @property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        return tuple(self._places)


def explore(program: DryProgram, hardware: Hardware, progress: Progress) -> Grid:
    """Simulate a program on all devices of the grid around some hardware, without data.

    Args:
        program: that runs.
        hardware: whose array, scratchpads and DMA are replaced; all else stays.
        progress: is called when a device is done.
    """
    axes = {name: tuple(sorted({*stops, getattr(hardware, name)})) for name, stops in AXES.items()}
    tiles, lists, records = _Places(), _Places(), _Places()
    cells: list[tuple[int, ...] | str] = []
    fields = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    for found in _simulated(program, hardware, fields):
        if isinstance(found, str):
            cells.append(found)
        else:
            mine: dict[int, list[int]] = {}
            for tile in found.tiles:
                mine.setdefault(tile.instruction, []).append(tiles.of(tile_row(tile)))
            cells.append(
                tuple(
                    records.of((*record_row(one), lists.of(tuple(mine.get(one.number, ())))))
                    for one in found.instructions
                )
            )
        progress(len(cells), len(fields))
    base = tuple(axes[name].index(getattr(hardware, name)) for name in axes)
    return Grid(axes, base, tiles.rows, lists.rows, records.rows, tuple(cells))


def tile_row(tile: TileCost) -> tuple[int, ...]:
    """Return a tile as ``flowshop.js`` takes it."""
    flags = tile.begins_frame | tile.loads_weights << 1
    return (
        tile.count, *tile.cycles, *tile.operations, tile.in_bytes, tile.out_bytes, tile.late, tile.spread,
        tile.before_spread, tile.early, tile.bias, tile.drain, flags,
    )  # fmt: skip


def record_row(one: InstructionCounters) -> tuple[int, ...]:
    """Return what has room at once, and products, cycles and stalls by cause."""
    return (one.frames, one.ring, one.parts, one.weight_slots, one.macs, one.cycles, *one.stalls)


def _simulated(program: DryProgram, hardware: Hardware, fields: list[dict[str, int]]) -> Iterator[Simulation | str]:
    """Give a simulation for each device, in order, or why there is none."""

    def simulate(changed: dict[str, int]) -> Simulation | str:
        try:
            return program.simulate(hardware.replaced(**changed))
        except (InputError, KernelError) as error:
            return str(error)

    with ThreadPoolExecutor(
        min(os.cpu_count() or 1, MOST_THREADS)
    ) as pool:  # C does nearly all of it, without Python's lock
        yield from pool.map(simulate, fields)
