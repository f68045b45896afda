"""Hints: what a graph says of its inputs: values at which it decides, tables that they index, extents that are free."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cross_backend.program.running import bounds_of, name_of
from cross_backend.verify.probes import Hint

if TYPE_CHECKING:
    from torch.export import ExportedProgram

MOST = 32
"""Thresholds of an input."""
LARGEST, ELEMENTS = 4, 1 << 22
"""A free extent without a bound is tried up to so many times the sample's; elements of an input."""
_SAME = {"view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "clone", "contiguous", "flatten", "to"}
_SAME |= {"_to_copy", "detach", "alias", "expand", "dropout"}
_TIES = {"round": (-1.5, -0.5, 0.5, 1.5, 2.5), "floor": (-1.0, 0.0, 1.0), "ceil": (-1.0, 0.0, 1.0)}
_TABLES = {"embedding": 1, "embedding_bag": 1, "index_select": 2}
"""Operator that looks rows of its first argument up → place of the indices."""


def hints_of(program: ExportedProgram) -> list[Hint]:
    """Return a hint for each user input."""
    names = [str(name) for name in program.graph_signature.user_inputs]
    thresholds: dict[str, list[float]] = {name: [] for name in names}
    rows: dict[str, int] = {}
    for node in program.graph.nodes:
        if node.op != "call_function" or not node.args:
            continue
        name = name_of(node)
        for bound in _TIES.get(name, ()) or bounds_of(name, node.args[1:], node.kwargs):
            found = _solved(node.args[0], bound)
            if found is not None and found[0] in thresholds and len(thresholds[found[0]]) < MOST:
                thresholds[found[0]].append(found[1])
        if name in _TABLES and len(node.args) > _TABLES[name]:
            source = _solved(node.args[_TABLES[name]], 0.0)
            shape = node.args[0].meta["val"].shape if "val" in getattr(node.args[0], "meta", {}) else ()
            if source is not None and shape and isinstance(shape[0], int):
                rows[source[0]] = min(shape[0], rows.get(source[0], shape[0]))
    return [Hint(tuple(dict.fromkeys(thresholds[name])), rows.get(name)) for name in names]


def _solved(node: Any, value: float) -> tuple[str, float] | None:
    """Return the input that a node is computed of elementwise, and what the input is where the node has a value."""
    while getattr(node, "op", None) == "call_function":
        name, others = name_of(node).removesuffix("_"), node.args[1:]
        number = others[0] if others and isinstance(others[0], int | float) else None
        if name == "neg":
            value = -value
        elif name == "mul" and number:
            value /= number
        elif name == "div" and number and not node.kwargs:
            value *= number
        elif name in {"add", "sub"} and number is not None and not node.kwargs:
            value += number if name == "sub" else -number
        elif name not in _SAME:
            return None
        node = node.args[0]
    return (node.name, value) if getattr(node, "op", None) == "placeholder" else None


def shapes_of(program: ExportedProgram) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Yield the shapes of all inputs at the smallest, one middle and the largest extents that the program allows."""
    import torch

    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    shapes: list[Sequence[Any]] = [nodes[str(name)].meta["val"].shape for name in program.graph_signature.user_inputs]
    symbols = {s for shape in shapes for n in shape if isinstance(n, torch.SymInt) for s in n.node.expr.free_symbols}
    if not symbols or not symbols <= set(program.range_constraints):
        return
    hints = {s: _hint(shapes, s) for s in symbols}
    bounds = {s: _bounds(program.range_constraints[s], hints[s]) for s in symbols}
    for name, share in (("smallest sizes", 0.0), ("middle sizes", 0.5), ("largest sizes", 1.0)):
        chosen = {s: round(least + (most - least) * share) for s, (least, most) in bounds.items()}
        made = [tuple(_extent(n, chosen) for n in shape) for shape in shapes]
        if chosen != hints and all(math.prod(shape) <= ELEMENTS for shape in made):
            yield name, made


def _extent(extent: Any, chosen: Mapping[Any, int]) -> int:
    return extent if isinstance(extent, int) else int(extent.node.expr.subs(chosen))


def _hint(shapes: Sequence[Sequence[Any]], symbol: Any) -> int:
    """Return a symbol's value in the sample."""
    extents = (n for shape in shapes for n in shape if not isinstance(n, int) and n.node.expr == symbol)
    return next((int(n.node.hint) for n in extents), 2)


def _bounds(found: Any, hint: int) -> tuple[int, int]:
    least = max(int(found.lower), 1)
    most = hint * LARGEST
    if found.upper.is_finite and getattr(found.upper, "is_Integer", False):
        most = int(found.upper) if int(found.upper) <= hint * 64 else min(int(found.upper), most)
    return least, max(most, least)
