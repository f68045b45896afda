"""Atalla's cycles of the matrix unit beside those of SCALE-Sim 3, weight-stationary, layer by layer.

python benchmarks/atalla_scalesim.py [--sizes 8 16 32] [--layers]

SCALE-Sim loads a tile of weights, streams the rows through it, waits until the last sum is out, and only then loads the
next one: 2 R + C + T - 2 cycles for each. So it is compared with ``tile`` of ``atalla/rtl/cycles.py``, one tile by
itself, times the number of tiles. Both get the same products, cut into parts of as many rows as the unit's accumulators
have; SCALE-Sim knows no such limit. The claim: utilisation, the share of what the elements could have multiplied,
differs by at most one in a hundred in every layer. What the unit does above that is in columns of their own, and not in
the claim: it loads weights while rows go through (``chain``), and reads its accumulators, a row an edge (``matmul``).
Then follow what SCALE-Sim's formula yields for rows that are not cut, and the simulated device with an array of this
size, all else its defaults: its matrix unit while it works, and all cycles, in which it may wait for memory and for the
vector unit, that makes int8 of sums.

Layers: all products of ResNet-50, of BERT-base with 128 tokens, and of MobileNetV2's 1 × 1 convolutions. SCALE-Sim runs
in an environment of its own in the user's cache folder, which is made here, and takes 0.1 ms a cycle: minutes for
32 × 32, an hour for 8 × 8. What it found is kept. The script's status is 1 where the claim is broken.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass

from _gemm import blob
from _products import NETWORKS, Product
from _scalesim import Report, simulate
from _table import show

from atalla.device import Hardware
from atalla.rtl.build import ROWS
from atalla.rtl.cycles import chain, matmul, tile
from atalla.run.device import DryProgram

CLAIM = 1.0
"""Largest difference of utilisation, in a hundred."""


@dataclass(frozen=True)
class Compared:
    """A layer on both; utilisations in a hundred."""

    product: Product
    theirs: float
    """SCALE-Sim's own count, all parts."""
    alone: float
    """Ours, tiles one after the other."""
    exact: bool
    """Whether each of our tiles takes SCALE-Sim's cycles and one edge, which writes the accumulator."""
    overlapped: float
    """Ours, weights loaded while rows go through."""
    with_reading: float
    """The same, and accumulators read."""
    uncut: float
    """SCALE-Sim's formula for all rows at once."""
    unit: float
    """The device's matrix unit, while it works."""
    device: float
    """The device, all its cycles."""


MORE: dict[str, Callable[[Compared], float]] = {
    "ours, overlapped": lambda x: x.overlapped,
    "and read": lambda x: x.with_reading,
    "SCALE-Sim, rows uncut": lambda x: x.uncut,
    "device's unit": lambda x: x.unit,
    "device": lambda x: x.device,
}
"""Column → what is shown beside the claim."""


def tiles(product: Product, size: int) -> int:
    """Return how many tiles of weights there are."""
    return -(-product.depth // size) * -(-product.columns // size)


def compared(product: Product, size: int, ask: Callable[[Product, int], Report]) -> Compared:
    """Compare one layer."""
    parts = product.parts(ROWS)
    reports = [ask(part, size) for part in parts]
    assert not any(report.stalls for report in reports), "SCALE-Sim waited for memory"
    theirs = sum(report.cycles for report in reports)
    count = tiles(product, size)
    alone = count * sum(tile(part.rows, size) for part in parts)

    def share(cycles: int) -> float:
        return 100 * product.macs / (cycles * size * size)

    return Compared(
        product,
        share(theirs),
        share(alone),
        alone - count * len(parts) == theirs + len(parts),  # the number of the last cycle is one less than there are
        share(-(-product.columns // size) * sum(chain(part.rows, product.depth, size) for part in parts)),
        share(matmul(product.rows, product.depth, product.columns, size)),
        share(count * (product.rows + 3 * size - 2)),
        *map(share, on_device(product, size)),
    )


@functools.cache
def program(product: Product) -> DryProgram:
    """Return it for the device."""
    return DryProgram(blob(product))


def on_device(product: Product, size: int) -> tuple[int, int]:
    """Return cycles in which the matrix unit multiplies, and all."""
    (counted,) = program(product).simulate(Hardware(array=size)).instructions
    assert counted.macs == product.macs
    return counted.matrix_cycles, counted.cycles


def row(name: str, size: int, found: Compared) -> tuple[str, ...]:
    """Return a layer's line."""
    shares = (found.theirs, found.alone, found.alone - found.theirs, *(of(found) for of in MORE.values()))
    return (name, f"{size} × {size}", *(f"{share:.2f}" for share in shares))


def summary(name: str, size: int, layers: list[Compared]) -> tuple[str, ...]:
    """Return a network's line: utilisations of the whole, and the largest differences of a layer."""
    macs = sum(layer.product.macs for layer in layers)

    def whole(of: Callable[[Compared], float]) -> str:
        return f"{macs / sum(layer.product.macs / of(layer) for layer in layers):.1f}"

    worst = max(abs(layer.alone - layer.theirs) for layer in layers)
    relative = max(abs(layer.alone / layer.theirs - 1) for layer in layers)
    shares = [whole(of) for of in (lambda x: x.theirs, lambda x: x.alone)]
    return (name, f"{size} × {size}", *shares, f"{worst:.2f}", f"{relative:.1%}", *map(whole, MORE.values()))


def main() -> int:
    """Print the tables; 1 where the claim is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=(32,), help="of the unit: 8, 16, 32")
    parser.add_argument("--layers", action="store_true", help="a line for each layer, too")
    asked = parser.parse_args()
    networks, lines, every = [], [], []
    for size in asked.sizes:
        for name, products in NETWORKS.items():
            layers = [compared(product, size, simulate) for product in products()]
            networks.append(summary(name, size, layers))
            lines += [row(f"{name}: {x.product}", size, x) for x in dict.fromkeys(layers)]
            every += layers
    if asked.layers:
        show("Utilisation, %", ("layer", "unit", "SCALE-Sim", "ours, tiles alone", "difference", *MORE), lines)
    head = ("network", "unit", "SCALE-Sim", "ours, tiles alone", "largest difference of a layer", "relative", *MORE)
    show("Utilisation, %", head, networks)
    exact = sum(found.exact for found in every)
    print(f"Layers whose tiles take SCALE-Sim's cycles and one edge more, exactly: {exact} of {len(every)}")
    worst = max(abs(found.alone - found.theirs) for found in every)
    print(f"Largest difference: {worst:.2f} in a hundred; at most {CLAIM:.0f} is claimed")
    return 1 if worst > CLAIM else 0


if __name__ == "__main__":
    sys.exit(main())
