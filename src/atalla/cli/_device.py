"""A run on the simulated device: cycles of each instruction, and what they would take at the hardware's clock."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from atalla.cli import print_json, print_table, say, size
from atalla.cli._tensors import print_tensors, random_inputs, read_inputs, write_outputs

if TYPE_CHECKING:
    from atalla.device import Simulation
    from atalla.run.runtime import Loaded


def run_on_device(args: argparse.Namespace, load: Callable[..., Loaded]) -> int:
    """Run once, and print what it took."""
    from atalla.device import Hardware, read_hardware

    hardware = Hardware() if args.hardware is None else read_hardware(args.hardware)
    loaded = load(hardware=hardware)
    listing = loaded.listing
    inputs = random_inputs(listing, args.seed) if args.inputs is None else read_inputs(args.inputs, listing)
    outputs = loaded.run(inputs)
    if args.outputs is not None:
        write_outputs(args.outputs, outputs)
    simulation = loaded.simulation
    assert simulation is not None  # it ran on a device
    if args.json:
        print_json({"schema": 1, "file": str(args.file), "executor": args.executor, **document(simulation)})
        return 0
    say(f"{args.file}: {hardware.name}, simulated, with the arithmetic of {loaded.isa}")
    if args.executor == "rtl":
        edges = sum(one.unit_edges for one in simulation.instructions)
        say(f"  RTL: {edges:,} clock edges of the matrix unit, as the device counts; float32 is not multiplied by it")
    print_tensors(listing, inputs, outputs)
    _print(simulation)
    return 0


def document(simulation: Simulation) -> dict[str, Any]:
    """Return a simulation as JSON holds it."""
    rows = [
        {
            "number": one.number,
            "operation": one.operation,
            "shape": list(one.shape),
            "node": one.node or None,
            "line": one.line or None,
            "cycles": one.cycles,
            "busy": one.busy._asdict(),
            "stalls": one.stalls._asdict(),
            "in_bytes": one.in_bytes,
            "out_bytes": one.out_bytes,
            "macs": one.macs,
            "peak_bytes": list(one.peak_bytes),
            "tiles": one.tiles,
            "is_host": one.is_host,
        }
        for one in simulation.instructions
    ]
    return {
        "simulated": True,
        "isa": simulation.isa,
        "hardware": simulation.hardware.document(),
        "cycles": simulation.cycles,
        "estimated_ms": simulation.milliseconds,
        "utilisation": simulation.utilisation,
        "calls_host": simulation.calls_host,
        "instructions": rows,
    }


def _print(simulation: Simulation) -> None:
    hardware = simulation.hardware
    print(
        f"  simulated: {simulation.cycles:,} cycles, an estimate of {simulation.milliseconds:.3f} ms at "
        f"{hardware.clock_mhz} MHz; {simulation.utilisation:.1%} of the matrix unit, "
        f"{size(simulation.in_bytes)} in, {size(simulation.out_bytes)} out"
    )
    if simulation.calls_host:
        print("  the host computed a part of it, whose time is not in these cycles")
    table = [("cycles", "share", "used", "in", "out", "tiles", "", "operation", "shape", "node")]
    for one in sorted(simulation.instructions, key=lambda one: -one.cycles):
        share = f"{one.cycles / max(simulation.cycles, 1):.1%}"
        spent = ("host", "", "") if one.is_host else (f"{one.cycles:,}", share, f"{one.utilisation(hardware):.1%}")
        moved = (size(one.in_bytes), size(one.out_bytes), str(one.tiles), str(one.number))
        table.append((*spent, *moved, one.operation, "×".join(map(str, one.shape)) or "scalar", one.node))
    print("\nBy instruction, simulated:")
    print_table(table, right=(0, 1, 2, 3, 4, 5, 6))
