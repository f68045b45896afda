"""Verify, the symbols: what is worked out of them is what stands in the tables for the example; as in symbols.c."""

from __future__ import annotations

from collections.abc import Sequence

from atalla.blob.reader import Listing
from atalla.blob.rows import need
from atalla.isa import Layout, NodeKind, OutputKind, PatchKind, Verdict
from atalla.isa.format import MOST_BYTES, MOST_DIMS, MOST_FACTOR
from atalla.symbols import Symbol, bind, evaluate_node


def check_symbols(listing: Listing) -> None:
    """Check SYMS, where it is there."""
    rows, nodes, guards, patches = listing.symbolic
    for symbol, (_, zero, *_) in zip(listing.symbols, rows, strict=True):
        need(not zero and 0 <= symbol.least <= symbol.most <= MOST_BYTES, Verdict.SYMBOLS)
        need(symbol.input < len(listing.inputs), Verdict.SYMBOLS)
        need(1 <= symbol.factor <= MOST_FACTOR and abs(symbol.summand) <= MOST_BYTES, Verdict.SYMBOLS)
        need(symbol.dim < len(listing.tensors[listing.inputs[symbol.input]].shape), Verdict.SYMBOLS)
    _check_nodes(listing)
    _check_patches(listing)
    values = bind(listing.symbols, [listing.tensors[one].shape for one in listing.inputs])
    numbers = None if isinstance(values, Symbol) else evaluate(nodes, values)
    need(numbers is not None and holds(guards, numbers), Verdict.SYMBOLS)
    for kind, row, field, node in patches:
        need(numbers is not None and _stored(listing, kind, row, field) == numbers[node], Verdict.SYMBOLS)


def _check_nodes(listing: Listing) -> None:
    rows, nodes, guards, _ = listing.symbolic
    for i, (kind, zero, a, b) in enumerate(nodes):
        need(kind <= max(NodeKind) and not zero, Verdict.SYMBOLS)
        if kind == NodeKind.CONST:
            need(abs(a) <= MOST_BYTES and not b, Verdict.SYMBOLS)
        elif kind == NodeKind.SYMBOL:
            need(0 <= a < len(rows) and not b, Verdict.SYMBOLS)
        else:
            need(0 <= a < i and 0 <= b < i, Verdict.SYMBOLS)
    for node, zero, _, _ in guards:
        need(node < len(nodes) and not zero, Verdict.SYMBOLS)


def _check_patches(listing: Listing) -> None:
    """Check that patches go where numbers are, each once: they are sorted."""
    _, nodes, _, patches = listing.symbolic
    before: tuple[int, ...] = (-1,)
    for kind, row, field, node in patches:
        need(before < (kind, row, field), Verdict.SYMBOLS)
        before = (kind, row, field)
        need(kind <= max(PatchKind) and node < len(nodes), Verdict.SYMBOLS)
        if kind == PatchKind.TENSOR:
            need(row < len(listing.tensors) and field <= 2 * MOST_DIMS, Verdict.SYMBOLS)
            tensor = listing.tensors[row]
            fits = not field or (field - 1) % MOST_DIMS < len(tensor.shape)
            need(tensor.layout is Layout.STRIDED and fits, Verdict.SYMBOLS)
            continue
        outputs = listing.ends[1]
        need(not field and row < len(listing.words if kind == PatchKind.WORD else outputs), Verdict.SYMBOLS)
        need(kind == PatchKind.WORD or outputs[row].kind is OutputKind.INT, Verdict.SYMBOLS)


def _stored(listing: Listing, kind: int, row: int, field: int) -> int:
    if kind == PatchKind.WORD:
        return listing.words[row]
    if kind == PatchKind.OUTPUT:
        return listing.ends[1][row].bits
    tensor = listing.tensors[row]
    if not field:
        return tensor.offset
    return (tensor.shape if field <= MOST_DIMS else tensor.strides)[(field - 1) % MOST_DIMS]


def evaluate(nodes: Sequence[tuple[int, ...]], symbols: Sequence[int]) -> list[int] | None:
    """Work out all nodes; None where one has no value, or one beyond the cap."""
    values: list[int] = []
    for kind, _, a, b in nodes:
        if kind in {NodeKind.CONST, NodeKind.SYMBOL}:
            values.append(a if kind == NodeKind.CONST else symbols[a])
            continue
        made = evaluate_node(NodeKind(kind), values[a], values[b])
        if made is None:
            return None
        values.append(made)
    return values


def holds(guards: Sequence[tuple[int, ...]], values: Sequence[int]) -> bool:
    """Whether every guard's number is between its bounds."""
    return all(least <= values[node] <= most for node, _, least, most in guards)
