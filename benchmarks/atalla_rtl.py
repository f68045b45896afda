"""How fast Atalla's matrix unit is in simulation: its own speed, all products of MobileNetV3-Small, and its blob.

python benchmarks/atalla_rtl.py [--sizes 16 32] [--rounds 3]

The network's products are those of its layers at 224 × 224, with random numbers: convolutions as [pixels, taps ·
channels] × [taps · channels, filters], depthwise ones as many channels at once as fit along the depth, each in a column
of its own. Every sum is compared with torch's, every count of cycles with the closed form. Times are the processor's,
the fastest of all rounds.

The blob is the whole network, quantised, on the device whose matrix unit is the RTL (``executor="rtl"``): depthwise
layers go through its vector unit. Outputs are compared bit by bit with the kernels', edges with the device's by the
device itself, chain by chain.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from _table import show

from atalla.errors import AtallaError
from atalla.rtl import MatrixUnit
from atalla.rtl.cycles import matmul
from atalla.torchvision import torchvision_models

if TYPE_CHECKING:
    import torch

ROWS, DEPTH, COLUMNS = 1024, 256, 64
"""Of the product that is timed."""


@dataclass(frozen=True)
class Layer:
    """A layer's product, or one of those that a depthwise layer is made of."""

    rows: int
    depth: int
    columns: int
    times: int
    """How often."""
    macs: int
    """Of the whole layer that are not with zeros."""


def layers(size: int) -> list[Layer]:
    """Return the products of MobileNetV3-Small on a unit of this size."""
    import torch

    found: list[Layer] = []

    def note(module: Any, _: tuple[torch.Tensor, ...], made: torch.Tensor) -> None:
        columns, depth = module.weight.shape[0], module.weight[0].numel()
        rows = made.numel() // columns
        if getattr(module, "groups", 1) == 1:
            found.append(Layer(rows, depth, columns, 1, rows * depth * columns))
        else:
            at_once = max(1, size // depth)
            found.append(Layer(rows, depth * at_once, at_once, -(-columns // at_once), rows * depth * columns))

    with torch.device("meta"):
        model = torchvision_models().mobilenet_v3_small().eval()
        for module in model.modules():
            if isinstance(module, torch.nn.Conv2d | torch.nn.Linear):
                module.register_forward_hook(note)
        model(torch.empty(1, 3, 224, 224))
    return found


def timed(unit: MatrixUnit, kind: str, rounds: int) -> float:
    """Return millions of multiplications and additions a second."""
    import torch

    from atalla.run.reference_bf16 import linear

    torch.manual_seed(0)
    if kind == "int8":
        a, b = any_int8(ROWS, DEPTH), any_int8(DEPTH, COLUMNS)
        run, wanted = unit.matmul_int8, a.int() @ b.int()
    else:
        a, b = torch.randn(ROWS, DEPTH).bfloat16(), torch.randn(DEPTH, COLUMNS).bfloat16()
        run, wanted = unit.matmul_bf16, linear(a, b.t(), None)
    best_s = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        found = run(a, b)
        best_s = min(best_s, time.process_time() - began)
        assert torch.equal(found.sums, wanted)
        assert found.cycles == matmul(ROWS, DEPTH, COLUMNS, unit.size)
    return ROWS * DEPTH * COLUMNS / best_s / 1e6


def any_int8(*shape: int) -> torch.Tensor:
    """Return random numbers."""
    import torch

    return torch.randint(-128, 128, shape, dtype=torch.int8)


def network(unit: MatrixUnit, products: Sequence[Layer]) -> tuple[float, int]:
    """Run all products; return their seconds and cycles."""
    import torch

    seconds, cycles = 0.0, 0
    for layer in products:
        a, b = any_int8(layer.rows, layer.depth), any_int8(layer.depth, layer.columns)
        wanted = (a.double() @ b.double()).int()
        for _ in range(layer.times):
            began = time.process_time()
            found = unit.matmul_int8(a, b)
            seconds += time.process_time() - began
            cycles += found.cycles
            assert torch.equal(found.sums, wanted)
        assert found.cycles == matmul(layer.rows, layer.depth, layer.columns, unit.size)
    return seconds, cycles


def blob() -> tuple[bytes, list[torch.Tensor]]:
    """Return MobileNetV3-Small in int8, and one input."""
    import torch

    from cross_backend.cache import Cache
    from cross_backend.exporting.export import ExportSettings, export
    from cross_backend.tensors import load_tensors
    from cross_backend.workloads import find_workload

    target, settings = "atalla?precision=int8", ExportSettings(Cache())
    captured, (row,) = export(find_workload("mobilenet_v3_small"), [target], settings)
    assert row.artifact is not None, row.reason
    inputs = load_tensors(captured.sample_path)["input"]
    return row.artifact.payload_path.read_bytes(), [torch.from_numpy(one) for one in inputs]


def executed(size: int, data: bytes, inputs: Sequence[torch.Tensor], rounds: int) -> tuple[str, ...]:
    """Run the blob on the device with the RTL; return a row."""
    import torch

    import atalla
    from atalla.device import Hardware

    (wanted,) = atalla.load(data, trust=True).run(inputs)
    loaded, best_s = atalla.load(data, executor="rtl", hardware=Hardware(array=size), trust=True), float("inf")
    for _ in range(rounds):
        began = time.process_time()
        (found,) = loaded.run(inputs)
        best_s = min(best_s, time.process_time() - began)
        assert torch.equal(found, wanted)
    simulation = loaded.simulation
    assert simulation is not None
    on_rtl = [one for one in simulation.instructions if one.unit_edges]
    edges, share = sum(one.unit_edges for one in on_rtl), sum(one.macs for one in on_rtl) / simulation.macs
    return f"{size} × {size}", f"{edges:,}", f"{share:.1%}", f"{simulation.cycles:,}", f"{best_s:.2f}"


def main() -> int:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=(16, 32), help="of the unit: 8, 16, 32")
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    speeds, networks, blobs = [], [], []
    try:
        data, inputs = blob()
        for size in asked.sizes:
            with MatrixUnit(size) as unit:
                measured = [(kind, timed(unit, kind, asked.rounds)) for kind in ("int8", "bf16")]
                speeds += [(f"{kind}, {size} × {size}", f"{speed:.0f}") for kind, speed in measured]
                products = layers(size)
                seconds, cycles = min(network(unit, products) for _ in range(asked.rounds))
            useful = sum(layer.macs for layer in products)
            share = f"{useful / (cycles * size * size):.1%}"
            row = (f"{size} × {size}", f"{useful / 1e6:.1f}", f"{cycles:,}", share, f"{seconds:.2f}")
            networks.append(row)
            blobs.append(executed(size, data, inputs, asked.rounds))
    except AtallaError as error:
        print(error, file=sys.stderr)
        return 1
    show(f"Matrix unit, {ROWS} × {DEPTH} × {COLUMNS}", ("unit", "MMAC/s"), speeds)
    show("MobileNetV3-Small, int8", ("unit", "MMAC", "cycles", "of them used", "s"), networks)
    headers = ("unit", "edges of the RTL", "of all products", "cycles of the device", "s")
    show("MobileNetV3-Small, int8, its blob with --executor rtl", headers, blobs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
