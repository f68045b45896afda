"""Capture basics: what torch.export makes of a function, of a module and of a small network.

python examples/atalla/export_basics.py
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import nn


class Product(nn.Module):
    """Two matrices, multiplied."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Give the positive part of their product."""
        return torch.relu(a @ b)


def main() -> None:
    """Run the three examples."""
    torch.manual_seed(0)
    print("== Example 1: a computation becomes a program that is called like it")
    inputs = (torch.randn(128, 64), torch.randn(64, 128))
    program = torch.export.export(Product(), inputs)
    print("output", program.module()(*inputs).shape)

    print("\n== Example 2: the program is a list of nodes; parameters are inputs of it")
    layer = nn.Sequential(nn.Linear(128, 64), nn.ReLU())
    x = torch.randn(32, 128)
    program = torch.export.export(layer, (x,))
    for node in program.graph.nodes:
        print(f"{node.op:<14} {node.name:<12} {node.target}")
    for spec in program.graph_signature.input_specs:
        print(f"input {spec.arg.name}: {spec.kind.name.lower()} {spec.target or ''}".rstrip())
    print(program.graph_module.code.strip())
    print("output", program.module()(x).shape)

    print("\n== Example 3: every call is an ATen operator, which is what a backend is written against")
    network = nn.Sequential(
        nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4), nn.Softmax(-1)
    )
    x = torch.randn(8, 16)
    program = torch.export.export(network.eval(), (x,))
    operators = Counter(str(node.target) for node in program.graph.nodes if node.op == "call_function")
    for name, count in operators.most_common():
        print(f"{count} × {name}")
    total = program.module()(x).sum().item()
    print(f"output sum {total:.4f} (8 rows of shares: 8)")


if __name__ == "__main__":
    main()
