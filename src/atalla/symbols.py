"""Symbols: sizes that are known only when inputs are, and what numbers are worked out of them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from atalla.isa import NodeKind
from atalla.isa.format import MOST_BYTES


@dataclass(frozen=True)
class Symbol:
    """A size that is known when inputs are: dim ``dim`` of input ``input`` is ``factor · symbol + summand``."""

    name: str
    least: int
    most: int
    input: int
    dim: int
    factor: int
    summand: int


@dataclass
class SymbolTable:
    """What the numbers of a program are worked out of."""

    symbols: list[Symbol]
    nodes: list[tuple[NodeKind, int, int]] = field(default_factory=list)
    guards: list[tuple[int, int, int]] = field(default_factory=list)
    """Node, and the least and the most that it may be."""
    tensors: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Field and node, by the identity of the tensor."""
    attributes: dict[int, dict[str, int]] = field(default_factory=dict)
    """Nodes by the names of attributes, by the identity of the instruction."""
    outputs: dict[int, int] = field(default_factory=dict)
    """Nodes by the number of the output."""


def bind(symbols: Sequence[Symbol], shapes: Sequence[Sequence[int]]) -> list[int] | Symbol:
    """Return the symbols' values of the shapes of inputs, or the first symbol that gets none."""
    values = []
    for symbol in symbols:
        value, rest = divmod(shapes[symbol.input][symbol.dim] - symbol.summand, symbol.factor)
        if rest or not symbol.least <= value <= symbol.most:
            return symbol
        values.append(value)
    return values


def evaluate_node(kind: NodeKind, a: int, b: int) -> int | None:
    """Return the value of a node that is made of two; None where it has none, or one beyond the cap."""
    if kind in {NodeKind.FLOOR_DIV, NodeKind.MOD} and b < 1:
        return None
    made = _OF_TWO[kind](a, b)
    return made if abs(made) <= MOST_BYTES else None


_OF_TWO: dict[NodeKind, Callable[[int, int], int]] = {
    NodeKind.ADD: operator.add, NodeKind.MUL: operator.mul, NodeKind.FLOOR_DIV: operator.floordiv,
    NodeKind.MOD: operator.mod, NodeKind.MIN: min, NodeKind.MAX: max,
}  # fmt: skip
