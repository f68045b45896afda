"""Minimise: a smaller program that fails in the same way; nodes go first, then what leaves hold, then sizes."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from atalla.fuzz.graph import NAME, Graph, Leaf, Node
from atalla.fuzz.values import RefusedError, values_of

if TYPE_CHECKING:
    import torch

NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
"""A whole number in a call."""
Fails = Callable[[Graph], bool]
"""Whether a program fails in the way that is looked for; one that does not run does not."""


class Means(Protocol):
    """What is known of the leaves of a program, which differs by where its programs come from."""

    def values(self, graph: Graph) -> Mapping[str, torch.Tensor] | None:
        """Return the value of each leaf and node in eager torch; None where it does not run."""

    def leaf_like(self, value: torch.Tensor, name: str, called: str) -> Leaf:
        """Return a leaf named ``called`` that can stand for the value of the node ``name``."""

    def plainer(self, graph: Graph) -> Iterator[Graph]:
        """Yield the program with leaves that need less explanation."""


class SeededLeaves:
    """Means for the generator's own programs, whose leaves are drawn from seeds."""

    def values(self, graph: Graph) -> Mapping[str, torch.Tensor] | None:
        """Return the values in float32; None where nobody can be held to one of them."""
        try:
            known = values_of(graph).known
        except RefusedError:
            return None
        return {name: one.single for name, one in known.items()}

    def leaf_like(self, value: torch.Tensor, name: str, called: str) -> Leaf:
        """Return a leaf with numbers such as a value has."""
        dtype, shape, bound = str(value.dtype).removeprefix("torch."), tuple(value.shape), 0
        kind = {"float32": "float"}.get(dtype, dtype)
        if value.numel() and dtype == "float32" and float(value.min()) > 0:
            kind = "positive"
        elif value.numel() and dtype in {"int64", "int32"} and int(value.min()) >= 0:
            kind, bound = {"int64": "index", "int32": "index32"}[dtype], int(value.max()) + 1
        return Leaf(called, kind, shape, "plain", int(name[1:]), bound)

    def plainer(self, graph: Graph) -> Iterator[Graph]:
        """Yield it without odd options, layouts, kinds of numbers and parameters, one after the other."""
        if graph.options == "exact=True":
            yield replace(graph, options="")
        for leaf in graph.leaves:
            if leaf.layout != "plain":
                yield with_leaf(graph, leaf, replace(leaf, layout="plain"))
            if leaf.kind in {"positive", "halves", "small", "grid"}:
                yield with_leaf(graph, leaf, replace(leaf, kind="float"))
            yield from as_input(graph, leaf)


SEEDED = SeededLeaves()


def minimize(
    graph: Graph, fails: Fails, seconds: float = 60.0, means: Means = SEEDED, most: int | None = None
) -> Graph:
    """Return the smallest program that was found within a time; at worst the one that was given.

    Args:
        graph: it fails.
        fails: called with candidates.
        seconds: no candidate is tried later.
        means: of its leaves.
        most: candidates that are tried; as many as there is time for where None.
    """
    search = _Search(graph, fails, time.monotonic() + seconds, means, most)
    steps: tuple[Callable[[Graph], Iterator[Graph]], ...] = (
        *(_without_waste, _single_outputs, _earlier_outputs, _branches),
        *(lambda graph: _cuts(graph, means), lambda graph: _bypasses(graph, means)),
        *(means.plainer, _smaller_sizes),
    )
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for step in steps:
            while search.takes_one_of(step(search.best)):
                is_smaller = True
    return search.best


class _Search:
    """The smallest program until now, and what was tried."""

    def __init__(self, graph: Graph, fails: Fails, until: float, means: Means, most: int | None) -> None:
        self.best, self._fails, self._until, self._means, self._left = graph, fails, until, means, most
        self._seen = {graph}

    def takes_one_of(self, candidates: Iterator[Graph]) -> bool:
        """Take the first candidate that fails, and return whether there was one."""
        for one in candidates:
            if time.monotonic() > self._until or self._left == 0:
                return False
            smaller = one.pruned()
            if smaller in self._seen or _weight(smaller) >= _weight(self.best):
                continue
            self._seen.add(smaller)
            if self._does_fail(smaller):
                self.best = smaller
                return True
        return False

    def _does_fail(self, graph: Graph) -> bool:
        """Try a program; one that eager torch does not run costs none of a limited number of tries."""
        if self._left is not None:
            if self._means.values(graph) is None:
                return False
            self._left -= 1
        return self._fails(graph)


def _weight(graph: Graph) -> tuple[int, ...]:
    """Return what shall be small: nodes, outputs, leaves, elements, and leaves that are anything but plain."""
    elements, odd = 0, 0
    for leaf in graph.leaves:
        elements += math.prod(leaf.shape)
        odd += leaf.oddness + (not leaf.name.startswith("x")) + len(leaf.shape)
    numbers = sum(map(int, NUMBER.findall(" ".join(node.call for node in graph.nodes))))
    size = len(graph.nodes) + sum(source.count("\n") for source in graph.functions)
    return size, len(graph.outputs), len(graph.leaves), elements, odd + bool(graph.options), numbers


def _without_waste(graph: Graph) -> Iterator[Graph]:
    yield graph.pruned()


def _single_outputs(graph: Graph) -> Iterator[Graph]:
    for size in (1, len(graph.outputs) // 2):
        for first in range(0, len(graph.outputs), max(size, 1)):
            yield replace(graph, outputs=graph.outputs[first : first + max(size, 1)])


def _earlier_outputs(graph: Graph) -> Iterator[Graph]:
    """Give back another value instead of the last: what came behind it goes."""
    for name in _tensors(graph):
        if name not in graph.outputs:
            yield replace(graph, outputs=(name,))


def _branches(graph: Graph) -> Iterator[Graph]:
    """Put the lines of one branch in the place of a condition, whatever the condition is."""
    sources = {source.removeprefix("def ").partition("(")[0]: source for source in graph.functions}
    for at, node in enumerate(graph.nodes):
        found = re.fullmatch(r"torch\.cond\(\w+, (\w+), (\w+), \((.*?),?\)\)", node.call)
        for branch in found.groups()[:2] if found else ():
            yield _inlined(graph, at, sources[branch], found[3].split(", ") if found and found[3] else [])


def _inlined(graph: Graph, at: int, source: str, operands: Sequence[str]) -> Graph:
    """Return the program with a function's lines in the place of a node, whose parts are what it returns."""
    head, *body, end = source.splitlines()
    names = dict(zip(re.findall(r"\w+", head.partition("(")[2]), operands, strict=True))
    free = 1 + max((int(node.name[1:]) for node in graph.nodes), default=0)
    lines = []
    for number, line in enumerate(body, free):
        name, _, call = line.strip().partition(" = ")
        lines.append(Node(f"v{number}", _replaced(call, names)))
        names[name] = f"v{number}"
    results = [_replaced(text, names) for text in re.findall(r"\w+", end.partition("return")[2])]
    parts = {f"{graph.nodes[at].name}[{index}]": name for index, name in enumerate(results)}
    renamed = {node.name: parts[node.call] for node in graph.nodes if node.call in parts}
    later = [node for node in graph.nodes[at + 1 :] if node.call not in parts]
    return _renamed(graph, renamed, [*graph.nodes[:at], *lines, *later])


def _replaced(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\b[ab]\d+\b", lambda found: names[found[0]], text)


def _cuts(graph: Graph, means: Means) -> Iterator[Graph]:
    """Put leaves in the place of nodes: of half of them, of a quarter, at last of each alone."""
    values = means.values(graph)
    names = [name for name in _tensors(graph) if name not in graph.outputs]
    size = len(names)
    while size and values:
        for first in range(0, len(names), size):
            yield _cut(graph, names[first : first + size], values, means)
        size //= 2


def _cut(graph: Graph, names: Sequence[str], values: Mapping[str, torch.Tensor], means: Means) -> Graph:
    leaves, renamed = list(graph.leaves), {}
    for name in names:
        if hasattr(values[name], "dtype"):
            number = 1 + max((int(leaf.name[1:]) for leaf in leaves), default=0)
            leaf = means.leaf_like(values[name], name, f"x{number}")
            leaves.append(leaf)
            renamed[name] = leaf.name
    kept = [node for node in graph.nodes if node.name not in renamed]
    return _renamed(graph, renamed, kept, leaves=tuple(leaves))


def _bypasses(graph: Graph, means: Means) -> Iterator[Graph]:
    """Put an operand in the place of a node."""
    values = means.values(graph)
    if values is None:
        return
    for node in reversed(graph.nodes):
        for operand in node.operands:
            one, other = (values[name] for name in (node.name, operand))
            kinds = [(getattr(value, "shape", None), getattr(value, "dtype", None)) for value in (one, other)]
            if kinds[0] == kinds[1] and kinds[0][0] is not None:
                yield _renamed(graph, {node.name: operand}, [other for other in graph.nodes if other is not node])


def as_input(graph: Graph, leaf: Leaf) -> Iterator[Graph]:
    """Yield the program with a parameter or constant as an input."""
    if not leaf.name.startswith("x"):
        number = 1 + max(int(one.name[1:]) for one in graph.leaves)
        yield with_leaf(graph, leaf, replace(leaf, name=f"x{number}"))


def with_leaf(graph: Graph, old: Leaf, new: Leaf) -> Graph:
    """Return the program with another leaf for one of its own."""
    leaves = tuple(new if leaf is old else leaf for leaf in graph.leaves)
    return _renamed(graph, {old.name: new.name}, graph.nodes, leaves=leaves)


def _smaller_sizes(graph: Graph) -> Iterator[Graph]:
    """Make a size smaller, wherever its number stands, or in leaves alone; then one dim; then a number of a call."""
    for size in sorted({size for leaf in graph.leaves for size in leaf.shape}, reverse=True):
        for less in _less(size):
            shapes = [tuple(less if one == size else one for one in leaf.shape) for leaf in graph.leaves]
            leaves = tuple(replace(leaf, shape=shape) for leaf, shape in zip(graph.leaves, shapes, strict=True))
            nodes = tuple(replace(node, call=_with_number(node.call, size, less)) for node in graph.nodes)
            yield replace(graph, leaves=leaves, nodes=nodes)
            yield replace(graph, leaves=leaves)
    for leaf in graph.leaves:
        for place, size in enumerate(leaf.shape):
            for less in _less(size):
                yield with_leaf(graph, leaf, replace(leaf, shape=(*leaf.shape[:place], less, *leaf.shape[place + 1 :])))
    yield from _smaller_numbers(graph)


def _less(size: int) -> list[int]:
    """Return smaller sizes, the smallest first."""
    return sorted({one for one in (1, 2, 3, size // 2, size - 1) if 0 < one < size})


def _smaller_numbers(graph: Graph) -> Iterator[Graph]:
    for at, node in enumerate(graph.nodes):
        for number in sorted({int(one) for one in NUMBER.findall(node.call)}, reverse=True):
            for less in sorted({0, 1, number // 2} - {number}):
                made = replace(node, call=_with_number(node.call, number, less))
                yield replace(graph, nodes=(*graph.nodes[:at], made, *graph.nodes[at + 1 :]))


def _with_number(call: str, old: int, new: int) -> str:
    head, bracket, rest = call.partition("(")
    return head + bracket + re.sub(rf"(?<![\w.]){old}(?![\w.])", str(new), rest) if bracket else call


def _renamed(graph: Graph, names: Mapping[str, str], nodes: Sequence[Node], **changes: Any) -> Graph:
    """Return the program with these nodes, which read, as outputs do, what has another name now."""
    calls = [NAME.sub(lambda found: names.get(found[0], found[0]), node.call) for node in nodes]
    made = tuple(replace(node, call=call) for node, call in zip(nodes, calls, strict=True))
    return replace(graph, nodes=made, outputs=tuple(names.get(name, name) for name in graph.outputs), **changes)


def _tensors(graph: Graph) -> list[str]:
    """Return the nodes whose value is a tensor, in order."""
    parts = {operand for node in graph.nodes if not node.operator for operand in node.operands}
    return [node.name for node in graph.nodes if node.name not in parts]
