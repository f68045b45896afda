"""The simulated device on MobileNetV3-Small and ResNet-50, float32 and int8: bits, speed, and its cycles' own checks.

python benchmarks/atalla_device.py [--models mobilenet_v3_small resnet50] [--sweep 2]

Of each network the outputs are compared, bit for bit, with those of the kernels with the same instruction set, with
scratchpads of the usual size, and in the sweep with as many sizes from 32 KiB to 4 MiB as ``--sweep`` says; with int8
also with the reference, which defines what is right (in float32 kernels may fuse what the reference rounds twice).
Speed is millions of multiplications of the program a second of processor time, one thread, one run.

Cycles: the largest relative difference, over all instructions, of the analytic model from the event simulation, with
the usual scratchpads and with all sizes from 32 KiB to 4 MiB; cycles for each of these, which must not rise with them;
and, where Verilator is there, the tiles of each product of MobileNetV3-Small in int8 as the unit in SystemVerilog
counts them while it makes the same product. The script's status is 1 where bits differ, the models differ by more than
5 in a hundred, cycles rise, speed is below 100 million a second, or the unit in SystemVerilog counts other edges or
takes more than a minute.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _blobs import captured
from _table import show

import atalla
from atalla import rtl
from atalla.device import DeviceOptions, Hardware, estimate
from atalla.device.options import MatrixUnit
from atalla.run.device import DryProgram
from atalla.run.runtime import Loaded

if TYPE_CHECKING:
    import torch

SIZES = tuple(32 << 10 << n for n in range(8))
"""Of each scratchpad, bytes."""
SPEED = 100.0
"""Millions of multiplications a second."""
DIFFERENCE = 0.05
"""Of the two models of cycles."""
SMALL, RTL_SECONDS = "mobilenet_v3_small", 60
"""What the unit in SystemVerilog runs, and how long that may take."""


@dataclass(frozen=True)
class Ran:
    """A network on the device, with data."""

    same: bool
    """Whether all outputs had the kernels' bits."""
    golden: str
    """Whether they had the reference's: yes, no, or – where that is not asked for."""
    speed: float
    """Millions of multiplications a second."""


def bits_equal(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor]) -> bool:
    """Whether all elements have the same bits; NaN is equal to itself."""
    import torch

    return all(
        x.shape == y.shape and torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(a, b, strict=True)
    )


def ran(data: bytes, inputs: Sequence[torch.Tensor], precision: str, sizes: Sequence[int]) -> Ran:
    """Run it on the device with the usual scratchpads, and with these."""
    wanted = atalla.load(data, trust=True).run(inputs)
    golden = "–"
    loaded = atalla.load(data, trust=True, executor="device")
    bound = loaded.bind(inputs)
    began = time.process_time()
    found = bound()
    seconds = time.process_time() - began
    simulation = loaded.simulation
    assert simulation is not None
    if precision == "int8":
        golden = "yes" if bits_equal(found, atalla.load(data, trust=True, executor="reference").run(inputs)) else "no"
    same = bits_equal(found, wanted)
    for size in sizes:
        hardware = Hardware(scratchpad_bytes=size)
        same &= bits_equal(atalla.load(data, trust=True, executor="device", hardware=hardware).run(inputs), wanted)
    return Ran(same, golden, simulation.macs / seconds / 1e6)


def chosen(count: int) -> list[int]:
    """Return so many sizes, the smallest and the largest first."""
    order = [SIZES[0], SIZES[-1], *SIZES[1:-1]]
    return sorted(order[:count])


@dataclass(frozen=True)
class Counted:
    """A network whose products the unit in SystemVerilog made."""

    same: bool
    """Whether all outputs had the kernels' bits."""
    instructions: int
    """With products of the matrix unit."""
    alike: int
    """Of them, those whose tiles took as many edges in SystemVerilog as the device counts, in all."""
    cycles: int
    """Of those tiles, by the device."""
    seconds: float
    """Of the processor, for the run."""


def by_rtl(data: bytes, inputs: Sequence[torch.Tensor], size: int) -> Counted:
    """Run a program of int8 with the unit in SystemVerilog in the device's place of it."""
    wanted = atalla.load(data, trust=True).run(inputs)
    with rtl.MatrixUnit(size) as unit:
        int8, int8_unit = unit.entry("int8")
        multiply = MatrixUnit(int8=int8, int8_unit=int8_unit)
        loaded = Loaded(data, trust=True, device=DeviceOptions(Hardware(array=size), multiply))
        began = time.process_time()
        found = loaded.run(inputs)
        seconds = time.process_time() - began
    assert loaded.simulation is not None
    made = [one for one in loaded.simulation.instructions if one.matrix_cycles]
    alike = sum(one.matrix_cycles == one.unit_edges for one in made)
    return Counted(bits_equal(found, wanted), len(made), alike, sum(one.matrix_cycles for one in made), seconds)


def main() -> int:
    """Print the tables; 1 where a claim is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=("mobilenet_v3_small", "resnet50"))
    parser.add_argument(
        "--sweep", type=int, default=2, help="sizes of the scratchpads that are run with data, at most 8"
    )
    asked = parser.parse_args()
    runs, models, sweep, broken = [], [], [], False
    for name in asked.models:
        network = captured(name)
        for precision in ("fp32", "int8"):
            data = network.blob(precision)
            of: Any = ran(data, network.inputs, precision, chosen(asked.sweep))
            runs.append((f"{name}, {precision}", "yes" if of.same else "no", of.golden, f"{of.speed:.0f}"))
            dry = DryProgram(data)
            simulations = [dry.simulate(Hardware(scratchpad_bytes=size)) for size in SIZES]
            cycles = [one.cycles for one in simulations]
            sweep.append((f"{name}, {precision}", *(f"{one / 1e6:.2f}" for one in cycles)))
            usual = dry.simulate(Hardware())
            estimates = estimate(usual)
            worst = max(estimates, key=lambda one: abs(one.error))
            elsewhere = max(abs(one.error) for simulation in simulations for one in estimate(simulation))
            whole = sum(one.cycles for one in estimates) / usual.cycles - 1
            operation = usual.instructions[worst.number].operation
            differences = (
                f"{whole:+.1%}",
                f"{worst.error:+.1%}",
                operation if worst.error else "–",
                f"{elsewhere:.1%}",
            )
            models.append((f"{name}, {precision}", f"{usual.cycles:,}", f"{usual.utilisation:.1%}", *differences))
            broken |= not of.same or of.golden == "no" or of.speed < SPEED or elsewhere > DIFFERENCE
            broken |= any(later > earlier for earlier, later in itertools.pairwise(cycles))
    tried = f"usual scratchpads, and {asked.sweep} sizes of 32 KiB … 4 MiB"
    show(f"Runs ({tried})", ("network", "the kernels' bits", "the reference's", "MMAC/s"), runs)
    head = ("network", "cycles", "utilisation", "analytic, whole", "largest difference", "of", "of all scratchpads")
    show("Cycles, usual hardware", head, models)
    show("Millions of cycles by scratchpad", ("network", *(f"{size >> 10} KiB" for size in SIZES)), sweep)
    reason = rtl.missing()
    if reason is not None:
        print(f"No matrix unit in SystemVerilog: {reason}")
        return int(broken)
    network = captured(SMALL)
    data, rows = network.blob("int8"), []
    for size in (8, 16, 32):
        found = by_rtl(data, network.inputs, size)
        broken |= not found.same or found.alike < found.instructions or found.seconds > RTL_SECONDS
        counts = (f"{found.cycles:,}", str(found.instructions), str(found.alike), f"{found.seconds:.1f}")
        rows.append((f"{size} × {size}", "yes" if found.same else "no", *counts))
    head = ("unit", "the kernels' bits", "cycles of tiles", "instructions", "as many in SystemVerilog", "s")
    show(f"{SMALL}, int8, products by the unit in SystemVerilog", head, rows)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
