"""The whole pipeline: capture, partition, compile, serialise, load, run through the C ABI, compare with eager.

python examples/atalla/backend_pipeline_demo.py [FILE]

Writes the blob to FILE where one is named; ``atalla disasm FILE`` lists it then.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn

import atalla
from atalla.blob.reader import parse
from atalla.blob.segments import describe, segments


class Detector(nn.Module):
    """A small convolutional network; the best of its scores are picked by an operator that only the host has."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.Hardswish())
        self.block = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.BatchNorm2d(16), nn.ReLU())
        self.head = nn.Conv2d(16, 5, 1)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Give the eight best cells of each class, as shares of all."""
        features = self.stem(image)
        scores = self.head(features + self.block(features)).flatten(2).softmax(-1)
        best, cells = scores.sort(-1, descending=True)
        return best[..., :8] * 100.0, cells[..., :8]


def main(path: Path | None) -> None:
    """Go through the steps."""
    torch.manual_seed(0)
    model, image = Detector().eval(), torch.randn(1, 3, 32, 32)

    began = time.perf_counter()
    program = torch.export.export(model, (image,))
    captured = time.perf_counter()
    compiled = atalla.compile(program)
    done = time.perf_counter()
    listing = parse(compiled.data)

    print("== Partition")
    for line in describe(segments(listing)):
        print(line)

    print("\n== Compile and serialise")
    print(f"captured in {captured - began:.2f} s, compiled in {done - captured:.2f} s")
    print(f"{len(program.graph.nodes)} nodes became {len(listing.instructions)} instructions")
    print(f"blob {len(compiled.data):,} bytes, constants {listing.constant_bytes:,}")
    print(f"arena {compiled.arena_bytes:,} bytes; no plan can have fewer than {compiled.arena_bound:,}")
    if path is not None:
        path.write_bytes(compiled.data)
        print(f"written to {path}")

    loaded = atalla.load(compiled.data)
    print(f"\n== Execute ({loaded.isa})")
    found = loaded.run((image,))
    with torch.no_grad():
        wanted = model(image)
    for (_, number), one, other in zip(listing.outputs, found, wanted, strict=True):
        torch.testing.assert_close(one, other)
        print(f"{listing.tensors[number].name}: {tuple(one.shape)} {one.dtype}, equal to eager")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
