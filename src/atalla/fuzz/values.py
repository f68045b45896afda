"""Values: what a program computes in eager torch, and by how much right executors may differ from that.

Every node is computed in float32, in float64, and four times in float64 with noise: before a node that rounds, its
operands are moved a little, by ``noise`` of their largest element, up or down at random. How far a value moves then
is how far rounding may move it. Where noise changes a whole number, or moves a value by more than a few hundredths of
its size, the node is refused: no executor could be held to its result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atalla.fuzz.graph import Graph, Leaf, Node
from atalla.fuzz.rounding import EXACT

if TYPE_CHECKING:
    import torch

Value = Any
"""A tensor, or a list or tuple of tensors."""
MOST_ELEMENTS = 300_000
LARGEST = 1e5
"""Greater numbers are left out."""
FLOOR = 2.0**-36
"""What is allowed in any case: float64 rounds, too, where numbers of common size cancel."""
UNSTEADY = 0.03
"""A node is refused where noise moves it by more than this part of its largest element."""


@dataclass(frozen=True)
class Noise:
    """How much operands are moved, and what follows from that."""

    size: float
    """Of the largest element."""
    share: float
    """So much of what noise does is allowed."""


NOISE = {
    "float32": Noise(2.0**-14, 2.0**-4),
    "bf16": Noise(2.0**-8, 1.0),
    "int8": Noise(2.0**-8, 2.0),
}
"""Precision → noise. Float32 rounds to 2⁻²⁴: 64 times that is allowed at each node, for sums and approximations;
bfloat16 to 2⁻⁹; a step of int8 is 2⁻⁷ of the largest number that it holds, half of which is a rounding."""


UNFILLED = ("aten.empty.memory_format", "aten.empty_permuted.default")
"""Operators whose results hold anything."""


class RefusedError(Exception):
    """A node whose result nobody can be held to, or that eager torch does not take."""


@dataclass
class Known:
    """What is known of a value."""

    exact: Value
    """In float64, but for int8: in float32."""
    single: Value
    """In float32: eager torch."""
    noisy: list[Value]


@dataclass
class Values:
    """The values of a program, line by line."""

    precision: str = "float32"
    known: dict[str, Known] = field(default_factory=dict)

    def add_leaf(self, leaf: Leaf) -> torch.Tensor:
        """Enter a leaf, and return it.

        Raises:
            RefusedError: there are no such numbers.
        """
        try:
            single = evaluate(leaf.source, {})
        except RuntimeError as error:  # an index of nothing
            raise RefusedError(str(error)) from error
        exact = self._widened(single)
        self.known[leaf.name] = Known(exact, single, [exact] * 4)
        return single  # type: ignore[no-any-return]

    def add_node(self, node: Node) -> Value:
        """Enter a node, and return its value in float32.

        Raises:
            RefusedError: nobody can be held to its result.
        """
        import torch

        names = node.operands
        jiggles = bool(node.operator) and node.operator not in EXACT
        text = node.call if self.precision == "int8" else node.call.replace("torch.float32", "torch.float64")
        try:
            with torch.no_grad():
                single = evaluate(node.call, {name: self.known[name].single for name in names})
                exact = evaluate(text, {name: self.known[name].exact for name in names})
                noisy = []
                for number in range(4):
                    given = {name: self.known[name].noisy[number] for name in names}
                    noisy.append(evaluate(text, self._moved(given, node.name, number) if jiggles else given))
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
            raise RefusedError(str(error).partition("\n")[0]) from error
        if node.operator in UNFILLED:
            single, exact, noisy = single.zero_(), exact.zero_(), [one.zero_() for one in noisy]
        known = Known(exact, single, noisy)
        if isinstance(single, torch.Tensor):
            self._check(known)
        self.known[node.name] = known
        return single

    def tolerance(self, name: str) -> float:
        """Return by how much an element of a value may differ from the exact one."""
        known = self.known[name]
        spread = max((_distance(one, known.exact) for one in known.noisy), default=0.0)
        if not known.single.is_floating_point():
            return max(1.0, math.ceil(spread)) if spread or _is_int8(known.single) else 0.0
        return spread * NOISE[self.precision].share + 2.0**-20 * _size(known.exact) + FLOOR

    def _widened(self, value: torch.Tensor) -> torch.Tensor:
        return value.double() if value.is_floating_point() and self.precision != "int8" else value

    def _moved(self, given: dict[str, Value], node: str, number: int) -> dict[str, Value]:
        """Return operands with noise: of the first two runs the one is the other's opposite, as of the last two."""
        import torch

        moved = {}
        for place, (name, value) in enumerate(given.items()):
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
                seed = int(node[1:]) * 1000 + place * 10 + number // 2
                signs = torch.randint(0, 2, value.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
                signs = signs * (1 if number % 2 else -1)
                moved[name] = value + signs.to(value.dtype) * (NOISE[self.precision].size * _size(value))
            else:
                moved[name] = value
        return moved

    def _check(self, known: Known) -> None:
        exact, single = known.exact, known.single
        if exact.numel() > MOST_ELEMENTS:
            raise RefusedError("too many elements")
        if single.is_floating_point() and (single.isnan().any() or _size(exact) > LARGEST):
            raise RefusedError("NaN or too large")
        if str(single.dtype).removeprefix("torch.") not in DTYPES:
            raise RefusedError(f"{single.dtype}")
        distances = [_distance(one, exact) for one in (single, *known.noisy)]
        if not single.is_floating_point() and not _is_int8(single):
            if any(distances):
                raise RefusedError("whole numbers that hang by a hair")
        elif max(distances) > UNSTEADY * (1 if self.precision == "float32" else 8) * max(_size(exact), 1e-3):
            raise RefusedError("badly conditioned")


DTYPES = ("float32", "int64", "int32", "bool", "uint8", "int8")
"""Element types of values."""


def values_of(graph: Graph) -> Values:
    """Return the values of a program.

    Raises:
        RefusedError: nobody can be held to one of them.
    """
    values = Values(graph.precision)
    for leaf in graph.leaves:
        values.add_leaf(leaf)
    for node in graph.nodes:
        values.add_node(node)
    return values


def expected(graph: Graph) -> tuple[list[torch.Tensor], list[torch.Tensor], list[float]]:
    """Return the outputs of eager torch in float32 and in float64, and the tolerance of each.

    Raises:
        RefusedError: nobody can be held to a result.
    """
    values = values_of(graph)
    known = [values.known[name] for name in graph.outputs]
    return [one.single for one in known], [one.exact for one in known], list(map(values.tolerance, graph.outputs))


def evaluate(text: str, names: dict[str, Value]) -> Value:
    """Return the value of an expression of a program."""
    return eval(text, {**vocabulary(), **names})  # noqa: S307  the text is the generator's own


def vocabulary() -> dict[str, Any]:
    """Return what the text of programs names beside their own values."""
    import torch
    import torch.ao.quantization.fx._decomposed

    spaces = {name: getattr(torch.ops, name) for name in ("aten", "quantized_decomposed")}
    return {"torch": torch, "rand": rand, **spaces}


def rand(seed: int, *shape: int) -> torch.Tensor:
    """Return normal numbers."""
    import torch

    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _is_int8(value: torch.Tensor) -> bool:
    return str(value.dtype) == "torch.int8"


def _size(value: torch.Tensor) -> float:
    """Return the largest finite absolute value."""
    wide = value.detach().double().abs()
    wide = wide[wide.isfinite()]
    return float(wide.max()) if wide.numel() else 0.0


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return how far two tensors are from each other; infinitely where one has another shape or NaN."""
    if one.shape != other.shape:
        return math.inf
    if not one.numel():
        return 0.0
    a, b = one.detach().double(), other.detach().double()
    apart = (a - b).abs().where(a != b, 0.0)
    return math.inf if apart.isnan().any() else float(apart.max())


def distances(found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> list[float]:
    """Return how far each of some tensors is from what it shall be."""
    return [_distance(one, other) for one, other in zip(found, wanted, strict=True)]
