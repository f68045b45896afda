"""Minimise: a smaller program that fails in the same way; nodes go first, then what leaves hold, then sizes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from atalla.fuzz.graph import NAME, Graph, Leaf, Node
from atalla.fuzz.values import RefusedError, Values

NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
"""A whole number in a call."""
Fails = Callable[[Graph], bool]
"""Whether a program fails in the way that is looked for; one that does not run does not."""


def minimize(graph: Graph, fails: Fails, seconds: float = 60.0) -> Graph:
    """Return the smallest program that was found within a time; at worst the one that was given."""
    until = time.monotonic() + seconds
    best, seen = graph, {graph}

    def tried(candidates: Iterator[Graph]) -> bool:
        """Take the first candidate that fails, and return whether there was one."""
        nonlocal best
        for one in candidates:
            if time.monotonic() > until:
                return False
            smaller = one.pruned()
            if smaller in seen or _weight(smaller) >= _weight(best):
                continue
            seen.add(smaller)
            if fails(smaller):
                best = smaller
                return True
        return False

    steps = (_without_waste, _single_outputs, _earlier_outputs, _cuts, _bypasses, _plain_leaves, _smaller_sizes)
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for step in steps:
            while tried(step(best)):
                is_smaller = True
    return best


def _weight(graph: Graph) -> tuple[int, ...]:
    """Return what shall be small: nodes, outputs, leaves, elements, and leaves that are anything but plain."""
    elements, odd = 0, 0
    for leaf in graph.leaves:
        count = 1
        for size in leaf.shape:
            count *= size
        elements += count
        odd += (leaf.layout != "plain") + (leaf.kind not in PLAIN) + (not leaf.name.startswith("x")) + len(leaf.shape)
    numbers = sum(map(int, NUMBER.findall(" ".join(node.call for node in graph.nodes))))
    return len(graph.nodes), len(graph.outputs), len(graph.leaves), elements, odd + bool(graph.options), numbers


PLAIN = ("float", "int64", "bool")
"""Kinds of numbers that need no explanation."""


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


def _cuts(graph: Graph) -> Iterator[Graph]:
    """Put leaves in the place of nodes: of half of them, of a quarter, at last of each alone."""
    values = _values(graph)
    names = [name for name in _tensors(graph) if name not in graph.outputs]
    size = len(names)
    while size and values:
        for first in range(0, len(names), size):
            yield _cut(graph, names[first : first + size], values)
        size //= 2


def _cut(graph: Graph, names: Sequence[str], values: Values) -> Graph:
    leaves, renamed = list(graph.leaves), {}
    for name in names:
        number = 1 + max((int(leaf.name[1:]) for leaf in leaves), default=0)
        leaf = _leaf_like(values, name, f"x{number}")
        leaves.append(leaf)
        renamed[name] = leaf.name
    nodes = tuple(_renamed(node, renamed) for node in graph.nodes if node.name not in renamed)
    return replace(graph, leaves=tuple(leaves), nodes=nodes)


def _leaf_like(values: Values, name: str, called: str) -> Leaf:
    """Return a leaf with numbers such as a value has."""
    value = values.known[name].single
    dtype, shape, bound = str(value.dtype).removeprefix("torch."), tuple(value.shape), 0
    kind = {"float32": "float"}.get(dtype, dtype)
    if value.numel() and dtype == "float32" and float(value.min()) > 0:
        kind = "positive"
    elif value.numel() and dtype in {"int64", "int32"} and int(value.min()) >= 0:
        kind, bound = {"int64": "index", "int32": "index32"}[dtype], int(value.max()) + 1
    return Leaf(called, kind, shape, "plain", int(name[1:]), bound)


def _bypasses(graph: Graph) -> Iterator[Graph]:
    """Put an operand in the place of a node."""
    values = _values(graph)
    if values is None:
        return
    for node in reversed(graph.nodes):
        for operand in node.operands:
            one, other = (values.known[name].single for name in (node.name, operand))
            kinds = [(getattr(value, "shape", None), getattr(value, "dtype", None)) for value in (one, other)]
            if kinds[0] == kinds[1] and kinds[0][0] is not None:
                renamed = {node.name: operand}
                nodes = tuple(_renamed(late, renamed) for late in graph.nodes if late is not node)
                outputs = tuple(renamed.get(name, name) for name in graph.outputs)
                yield replace(graph, nodes=nodes, outputs=outputs)


def _plain_leaves(graph: Graph) -> Iterator[Graph]:
    if graph.options == "exact=True":
        yield replace(graph, options="")
    for leaf in graph.leaves:
        if leaf.layout != "plain":
            yield _with(graph, leaf, replace(leaf, layout="plain"))
        if leaf.kind in {"positive", "halves", "small", "grid"}:
            yield _with(graph, leaf, replace(leaf, kind="float"))
        if not leaf.name.startswith("x"):
            number = 1 + max(int(one.name[1:]) for one in graph.leaves)
            yield _with(graph, leaf, replace(leaf, name=f"x{number}"))


def _with(graph: Graph, old: Leaf, new: Leaf) -> Graph:
    """Return the program with another leaf for one of its own."""
    renamed = {old.name: new.name}
    leaves = tuple(new if leaf is old else leaf for leaf in graph.leaves)
    outputs = tuple(renamed.get(name, name) for name in graph.outputs)
    return replace(graph, leaves=leaves, nodes=tuple(_renamed(node, renamed) for node in graph.nodes), outputs=outputs)


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
                yield _with(graph, leaf, replace(leaf, shape=(*leaf.shape[:place], less, *leaf.shape[place + 1 :])))
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


def _renamed(node: Node, names: dict[str, str]) -> Node:
    return replace(node, call=NAME.sub(lambda found: names.get(found[0], found[0]), node.call))


def _values(graph: Graph) -> Values | None:
    """Return the values of a program; nothing where it does not run."""
    values = Values(graph.precision)
    try:
        for leaf in graph.leaves:
            values.add_leaf(leaf)
        for node in graph.nodes:
            values.add_node(node)
    except RefusedError:
        return None
    return values


def _tensors(graph: Graph) -> list[str]:
    """Return the nodes whose value is a tensor, in order."""
    parts = {operand for node in graph.nodes if not node.operator for operand in node.operands}
    return [node.name for node in graph.nodes if node.name not in parts]
