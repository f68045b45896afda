"""Graph: a random program as plain data, which prints as Python; its text is what runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

NAME = re.compile(r"\b[xpcv]\d+\b")
"""Names of values: inputs ``x0``, parameters ``p0``, constants ``c0``, results of nodes ``v0``."""


@dataclass(frozen=True)
class Leaf:
    """A tensor that no node makes."""

    name: str
    """``x…`` for an input, ``p…`` for a parameter, ``c…`` for a constant."""
    kind: str
    """A key of :data:`NUMBERS`."""
    shape: tuple[int, ...]
    layout: str
    """A key of :data:`LAYOUTS`."""
    seed: int
    bound: int = 0
    """Of an index: one more than the largest."""

    @property
    def source(self) -> str:
        """Return the Python expression that makes it."""
        shape, wrap = LAYOUTS[self.layout](self.shape)
        numbers = NUMBERS[self.kind].format(f"rand({', '.join(map(str, (self.seed, *shape)))})", bound=self.bound)
        return f"({numbers}){wrap}" if wrap else numbers

    @property
    def oddness(self) -> int:
        """Return how much of it needs an explanation."""
        return (self.layout != "plain") + (self.kind not in PLAIN)


PLAIN = ("float", "int64", "bool")
"""Kinds of numbers that need no explanation."""

NUMBERS = {
    "float": "{}",
    "positive": "{}.abs() + 0.5",
    "halves": "({} * 4).round() / 2",
    "small": "{} * 0.3",
    "grid": "{}.clamp(-0.9, 0.9)",
    "int64": "({} * 5).long()",
    "int32": "({} * 5).int()",
    "uint8": "({} * 40).abs().byte()",
    "int8": "({} * 50).clamp(-127, 127).char()",
    "index": "({} * 1000).abs().long() % {bound}",
    "index32": "({} * 1000).abs().int() % {bound}",
    "bool": "{} > 0",
    "step": "{}.abs() * 0.01 + 0.002",
    "zero": "({} * 0).int()",
}
"""Kind of numbers → the expression of normal ones that makes them."""


def _transposed(shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    return tuple(reversed(shape)), f".permute({', '.join(map(str, reversed(range(len(shape)))))})"


def _gaps(shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    return (*shape[:-1], shape[-1] * 2), "[..., ::2]"


def _offset(shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    return (shape[0] + 1, *shape[1:]), "[1:]"


def _channels_last(shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    return shape, ".contiguous(memory_format=torch.channels_last)"


def _expanded(shape: tuple[int, ...]) -> tuple[tuple[int, ...], str]:
    return (1, *shape[1:]), f".expand({', '.join(map(str, shape))})"


LAYOUTS = {
    "plain": lambda shape: (shape, ""),
    "transposed": _transposed,
    "gaps": _gaps,
    "offset": _offset,
    "channels_last": _channels_last,
    "expanded": _expanded,
}
"""How a leaf lies in memory → the shape that is filled, and what makes the leaf's own of it."""


@dataclass(frozen=True)
class Node:
    """One line of the program."""

    name: str
    call: str
    """``aten.add.Tensor(x0, v1, alpha=2)``, or ``v3[0]`` for a part of what another returns."""

    @property
    def operator(self) -> str:
        """Return ``aten.add.Tensor``; nothing for a part."""
        return self.call.partition("(")[0] if "(" in self.call else ""

    @property
    def operands(self) -> list[str]:
        """Return the names that it reads."""
        return NAME.findall(self.call)


@dataclass(frozen=True)
class Graph:
    """A program: tensors, lines, and what is given back."""

    leaves: tuple[Leaf, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    options: str = ""
    """Of ``atalla.compile``: ``bf16=True``."""
    precision: str = "float32"
    """A key of :data:`atalla.fuzz.values.NOISE`."""
    functions: tuple[str, ...] = ()
    """Sources of the functions that calls name, branches of ``torch.cond`` for example; callees come first."""

    @property
    def inputs(self) -> tuple[Leaf, ...]:
        """Return the leaves that are inputs."""
        return tuple(leaf for leaf in self.leaves if leaf.name.startswith("x"))

    def pruned(self) -> Graph:
        """Return it without what no output needs."""
        needed, nodes = set(self.outputs), []
        for node in reversed(self.nodes):
            if node.name in needed:
                nodes.append(node)
                needed.update(node.operands)
        leaves = tuple(leaf for leaf in self.leaves if leaf.name in needed)
        functions: list[str] = []
        callers = [node.call for node in nodes]
        for source in reversed(self.functions):
            name = source.removeprefix("def ").partition("(")[0]
            if any(re.search(rf"\b{name}\b", text) for text in callers):
                functions.append(source)
                callers.append(source.partition("\n")[2])
        return replace(self, leaves=leaves, nodes=tuple(reversed(nodes)), functions=tuple(reversed(functions)))

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Graph:
        """Return what :meth:`to_dict` was made of."""
        leaves = tuple(Leaf(**{**leaf, "shape": tuple(leaf["shape"])}) for leaf in given["leaves"])
        nodes = tuple(Node(**node) for node in given["nodes"])
        functions = tuple(given.get("functions", ()))
        return cls(leaves, nodes, tuple(given["outputs"]), given["options"], given["precision"], functions)


PRELUDE = """import torch
import torch.ao.quantization.fx._decomposed
import atalla
torch.set_grad_enabled(False)
aten, quantized_decomposed = torch.ops.aten, torch.ops.quantized_decomposed
def rand(seed, *shape): return torch.randn(shape, generator=torch.Generator().manual_seed(seed))"""


def prelude(graph: Graph) -> str:
    """Return the lines before the module."""
    if any(node.operator.startswith("quantized") for node in graph.nodes):
        return PRELUDE
    lines = PRELUDE.replace(
        ", quantized_decomposed = torch.ops.aten, torch.ops.quantized_decomposed", " = torch.ops.aten"
    )
    return "\n".join(line for line in lines.splitlines() if "quantization" not in line)


def module_source(graph: Graph) -> str:
    """Return the functions that the program calls, and the class ``Model``."""
    own = [leaf for leaf in graph.leaves if not leaf.name.startswith("x")]
    lines = [*graph.functions, "class Model(torch.nn.Module):"]
    if own:
        lines += ["    def __init__(self):", "        super().__init__()"]
    for leaf in own:
        is_parameter = leaf.name.startswith("p")
        kept = f"{leaf.name} = torch.nn.Parameter(" if is_parameter else f'register_buffer("{leaf.name}", '
        lines.append(f"        self.{kept}{leaf.source})")
    lines.append(f"    def forward({', '.join(['self', *(leaf.name for leaf in graph.inputs)])}):")
    lines += [f"        {node.name} = {_owned(node.call)}" for node in graph.nodes]
    lines.append(f"        return {_owned(_tuple(graph.outputs))}")
    return "\n".join(lines)


def inputs_source(graph: Graph) -> str:
    """Return the tuple of inputs."""
    return _tuple([leaf.source for leaf in graph.inputs])


def _owned(text: str) -> str:
    return re.sub(r"\b([pc]\d+)\b", r"self.\1", text)


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
