"""An accelerator's backend: what it supports, what falls back and why, and each instruction as it was executed.

python examples/atalla/my_accel_backend_prototype.py
"""

from __future__ import annotations

from collections import Counter
from itertools import zip_longest

import torch
from torch import nn

import atalla
from atalla.blob.reader import parse
from atalla.passes.normalize import normalize


class Ranker(nn.Module):
    """Scores that are sorted half-way: sorting is nothing that the accelerator does."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(32, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give four grades, each between -1 and 1."""
        ranked = torch.relu(self.score(x)).sort(-1, descending=True).values
        return torch.tanh(self.head(ranked))


def main() -> None:
    """Compile, say what runs where, and run twice."""
    torch.manual_seed(0)
    model = Ranker().eval()
    program = torch.export.export(model, (torch.randn(8, 32),))

    print("== Operators that the backend sees")
    compiled = atalla.compile(program)
    reasons = {one.target: one.reason for one in compiled.fallbacks}
    nodes = [node for node in normalize(program).graph.nodes if str(node.target).startswith("aten.")]
    for name, count in Counter(str(node.target) for node in nodes).items():
        print(f"{count} × {name:<24} {f'fallback: {reasons[name]}' if name in reasons else 'supported'}")

    print(f"\nCompiling graph -> {len(nodes)} operators")
    print(f"Program length: {len(parse(compiled.data).instructions)} instructions, {len(compiled.data):,} bytes")

    loaded = atalla.load(compiled.data, profile=True)
    for call in (1, 2):
        x = torch.randn(8, 32)
        print(f"\nEXECUTING ON ATALLA ({loaded.isa}), call {call}")
        (output,) = loaded.run((x,))
        *rows, _ = loaded.listing.instructions  # the last one is END
        for number, (row, time_ns) in enumerate(zip_longest(rows, loaded.times_ns()[:-1])):
            spent = "" if time_ns is None else f"{time_ns / 1e3:8.1f} µs"  # the reference keeps no times
            print(f"  {number}  {row.op.name:<10} {row.node:<10} {spent}".rstrip())
        torch.testing.assert_close(output, model(x))
        print(f"output {tuple(output.shape)}, sum {output.sum().item():.4f}, equal to eager")


if __name__ == "__main__":
    main()
