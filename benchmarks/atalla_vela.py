"""Cycles of the simulated device beside Vela's estimate for an Ethos-U, over the layers of MobileNetV2 in int8.

python benchmarks/atalla_vela.py [--target ethos-u85-1024] [--layers]

Both get the same captured program, each through its own quantiser, at 224 × 224. A layer is a convolution, or the
classifier, with the table that its ReLU6 is made of in ours, which Vela takes into the same pass: 53 in the same order,
which is checked by their multiplications. Additions of blocks, pooling and what quantises the image are in neither.
ethos-u85-1024, as ExecuTorch configures it, has what the device's defaults have: 1024 elements, 1 GHz, 32 bytes a
cycle of memory. Vela's figures are an estimate as well, and two machines differ: so only the order of the layers is
compared, by Spearman's rank correlation. The claim: at least 0.9 with the defaults; the other rows show how much that
depends on them, and ``MACs alone`` what counting multiplications yields. The script's status is 1 where it is broken.

Vela runs in its toolchain (``cross-backend toolchain add ethos_u``), about a minute.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from _blobs import captured
from _table import show
from _vela import Layer, estimate, parse

from atalla.device import Hardware

if TYPE_CHECKING:
    from atalla.device import InstructionCounters

CLAIM = 0.9
PRODUCTS = ("QCONV2D", "QDWCONV2D", "QGEMM")
HARDWARES = (
    Hardware(),
    Hardware(lanes=64),
    Hardware(lanes=128),
    Hardware(array=16),
    Hardware(array=64),
    Hardware(scratchpad_bytes=128 << 10),
    Hardware(dma_bytes_per_cycle=16),
    Hardware(vector_int8_factor=1),
    Hardware(vector_requantise_cycles=6),
    Hardware(vector_requantise_cycles=6, vector_int8_factor=1),
)


@dataclass(frozen=True)
class Ours:
    """A layer on the device."""

    operation: str
    """``QCONV2D``, …"""
    cycles: int
    """Of the product and of the table behind it."""
    product: int
    """Of the product alone."""
    macs: int
    """Multiplications, those with padding included."""


def layers(instructions: Iterable[InstructionCounters]) -> list[Ours]:
    """Return the products, each with the table behind it."""
    found: list[Ours] = []
    for one in instructions:
        operation = one.operation.split()[0]
        if operation in PRODUCTS:
            found.append(Ours(operation, one.cycles, one.cycles, one.macs))
        elif operation == "GATHER" and found:
            last = found.pop()
            found.append(Ours(last.operation, last.cycles + one.cycles, last.product, last.macs))
    return found


def ranks(values: Sequence[float]) -> list[float]:
    """Return which place each has in order, from 0; equal ones share the mean of theirs."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) - 1) / 2 for value in values]


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the rank correlation, -1 to 1."""
    return statistics.correlation(ranks(a), ranks(b))


def row(hardware: Hardware, ours: list[Ours], theirs: list[Layer]) -> tuple[str, ...]:
    """Return a line of the table."""
    changed = {k: v for k, v in hardware.document().items() if v != Hardware().document()[k]}
    name = ", ".join(f"{k} {v:,}" for k, v in changed.items()) or "defaults"
    whole = spearman([layer.cycles for layer in ours], [layer.cycles for layer in theirs])
    product = spearman([layer.product for layer in ours], [layer.cycles for layer in theirs])
    parts = []
    for kind in ("Conv2D", "DepthwiseConv2D"):
        pairs = [(a.cycles, b.cycles) for a, b in zip(ours, theirs, strict=True) if b.operator == kind]
        parts.append(spearman([a for a, _ in pairs], [b for _, b in pairs]))
    return (name, *(f"{share:.3f}" for share in (whole, product, *parts)), f"{sum(one.cycles for one in ours):,}")


def ask(target: str) -> tuple[bytes, list[Layer]]:
    """Return our blob, and what Vela says of the same program."""
    network = captured("mobilenet_v2")
    return network.blob("int8"), parse(estimate(network.program, network.calibration, target))


def main() -> int:
    """Print the tables; 1 where the claim is broken."""
    from atalla.run.device import DryProgram

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="ethos-u85-1024", help="of Vela; the claim is about this one")
    parser.add_argument("--layers", action="store_true", help="a line for each layer, too")
    asked = parser.parse_args()
    blob, theirs = ask(asked.target)
    dry = DryProgram(blob)
    found = [layers(dry.simulate(hardware).instructions) for hardware in HARDWARES]
    ours = found[0]
    assert [a.macs for a in ours] == [b.macs for b in theirs], "these are not the same layers"
    if asked.layers:
        lines = [
            (f"{n} {a.operation}", f"{a.macs:,}", f"{a.cycles:,}", f"{b.cycles:,}", f"{a.cycles / b.cycles:.2f}")
            for n, (a, b) in enumerate(zip(ours, theirs, strict=True), start=1)
        ]
        show("MobileNetV2, int8, cycles", ("layer", "MACs", "device", asked.target, "ratio"), lines)
    rows = [row(hardware, one, theirs) for hardware, one in zip(HARDWARES, found, strict=True)]
    alone = [Ours(one.operation, one.macs, one.macs, one.macs) for one in ours]
    rows.append(("MACs alone", *row(Hardware(), alone, theirs)[1:-1], "–"))
    head = ("hardware", "all layers", "without tables", "dense", "depthwise", "cycles of the layers")
    show(f"Rank correlation with {asked.target}, {len(theirs)} layers", head, rows)
    total = sum(layer.cycles for layer in theirs)
    print(f"{asked.target}: {total:,} cycles of the layers. At least {CLAIM} is claimed with the defaults.")
    return 1 if spearman([a.cycles for a in ours], [b.cycles for b in theirs]) < CLAIM else 0


if __name__ == "__main__":
    sys.exit(main())
