"""What the debugger shows of simulated time: tiles, regions of the scratchpads, micro-operations, counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from atalla.cli import print_table, say

if TYPE_CHECKING:
    from atalla.device import Event, Simulation

MOST_ROWS = 60
"""So many micro-operations are listed."""


def print_tile(simulation: Simulation, instruction: int, tile: int) -> None:
    """Print a tile's micro-operations, and the regions that they use."""
    count = simulation.instructions[instruction].tiles
    if not 0 <= tile < count:
        say(f"there is no tile {tile}: instruction {instruction} has {count}")
        return
    events = [one for one in simulation.events if (one.instruction, one.tile) == (instruction, tile)]
    say(f"tile {tile} of {count} of instruction {instruction}")
    _print(simulation, events)


def print_events(simulation: Simulation, instruction: int) -> None:
    """Print an instruction's micro-operations and regions."""
    _print(simulation, [one for one in simulation.events if one.instruction == instruction])


def print_watch(simulation: Simulation, instruction: int, offset: int, scratchpad: int | None) -> None:
    """Print what uses a byte of the scratchpads while an instruction runs: regions, and who writes and reads them."""
    if not 0 <= offset < simulation.hardware.scratchpad_bytes:
        say(f"there is no byte {offset}: a scratchpad has {simulation.hardware.scratchpad_bytes}")
        return
    events = simulation.events
    regions = {
        place
        for place, one in enumerate(events)
        if one.engine == "scratchpad"
        and one.instruction == instruction
        and one.offset <= offset < one.offset + one.bytes
        and scratchpad in {None, one.scratchpad}
    }
    users = [
        one
        for place, one in enumerate(events)
        if place in regions or regions.intersection(one.reads) or regions.intersection(one.writes)
    ]
    _print(simulation, sorted(users, key=lambda one: (one.begin, one.end)))


def _print(simulation: Simulation, events: Sequence[Event]) -> None:
    rows = [("  begin", "end", "tile", "", "bytes", "where", "reads", "writes")]
    for one in events[:MOST_ROWS]:
        where = _place(one) if one.engine == "scratchpad" else one.engine
        read, written = (", ".join(_place(simulation.events[i]) for i in places) for places in (one.reads, one.writes))
        times = (f"  {one.begin:,}", f"{one.end:,}", str(one.tile))
        rows.append((*times, one.kind, f"{one.bytes:,}" if one.bytes else "", where, read, written))
    print_table(rows, right=(0, 1, 2, 4))
    if len(events) > MOST_ROWS:
        say(f"  … {len(events) - MOST_ROWS:,} more")


def _place(region: Event) -> str:
    """Return the bytes of a region: the scratchpad's number, and from where to where."""
    return f"{region.scratchpad}:{region.offset:#x}–{region.offset + region.bytes:#x}"


def print_counters(simulation: Simulation, instruction: int) -> None:
    """Print what an instruction took."""
    one = simulation.instructions[instruction]
    say(f"#{one.number} {one.operation}: {one.cycles:,} cycles, simulated, {one.tiles:,} tiles, {one.macs:,} products")
    say(f"  DMA: {one.in_bytes:,} bytes in, {one.out_bytes:,} out, {one.descriptors:,} descriptors")
    say(f"  most of the scratchpads: {one.peak_bytes[0]:,} and {one.peak_bytes[1]:,} of {one.room_bytes:,} bytes")
    rows = [("  engine", "busy", "micro-operations")]
    rows += [
        (f"  {name}", f"{busy:,}", f"{count:,}")
        for name, busy, count in zip(one.busy._fields, one.busy, one.operations, strict=True)
    ]
    print_table(rows, right=(1, 2))
    say("  stalls: " + ", ".join(f"{name} {cycles:,}" for name, cycles in one.stalls._asdict().items()))
