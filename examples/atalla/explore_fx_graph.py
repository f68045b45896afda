"""Explore the FX graph: every node with its arguments, the generated code, and the instruction that Atalla makes of it.

python examples/atalla/explore_fx_graph.py
"""

from __future__ import annotations

import torch
from torch import nn

import atalla
from atalla.blob.disasm import disassemble


class Gate(nn.Module):
    """A linear layer whose output is gated by a second one."""

    def __init__(self) -> None:
        super().__init__()
        self.value = nn.Linear(16, 8)
        self.gate = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Give what passes the gate."""
        return self.value(x) * torch.sigmoid(self.gate(x))


def main() -> None:
    """Print the graph from three sides."""
    torch.manual_seed(0)
    program = torch.export.export(Gate(), (torch.randn(4, 16),))
    graph = program.graph_module.graph

    print("== The graph as a table")
    for node in graph.nodes:
        shape = tuple(node.meta["val"].shape) if hasattr(node.meta.get("val"), "shape") else ""
        print(f"{node.op:<14} {node.name:<16} {node.target!s:<22} {shape}")

    print("\n== Each node: what it calls, with what")
    for node in graph.nodes:
        print(f"{node.name}: op={node.op} target={node.target} args={node.args} kwargs={node.kwargs}")

    print("\n== The code that FX generates")
    print(program.graph_module.code.strip())

    print("\n== The instructions that Atalla makes of it; behind each, the node, the line and the module")
    for line in disassemble(atalla.compile(program).data):
        print(line)


if __name__ == "__main__":
    main()
