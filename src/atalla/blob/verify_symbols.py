"""Verify, the symbols: what is worked out of them is what stands in the tables for the example; as in symbols.c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atalla.blob.records import GUARD, NODE, PATCH, SYMBOL, SYMBOLS, Bytes
from atalla.blob.verify import Parts, need
from atalla.errors import BlobError
from atalla.isa import Layout, Node, Patch, Verdict
from atalla.symbols import MOST, MOST_FACTOR, evaluate_node


@dataclass(frozen=True)
class Symbols:
    """SYMS, row by row, as ``blob`` writes it."""

    symbols: Sequence[tuple[int, ...]]
    nodes: Sequence[tuple[int, ...]]
    guards: Sequence[tuple[int, ...]]
    patches: Sequence[tuple[int, ...]]


def rows(parts: Parts) -> Symbols:
    """Return the rows of SYMS; none where it is not there.

    Raises:
        BlobError: the counts are not those of its bytes.
    """
    if b"SYMS" not in parts.sections:
        return Symbols((), (), (), ())
    found = _read(parts.sections[b"SYMS"])
    if found is None:
        raise BlobError(Verdict.SYMBOLS, "no sound blob: symbols")
    return found


def _read(data: Bytes) -> Symbols | None:
    if len(data) < SYMBOLS.size:
        return None
    counts, at, parts = SYMBOLS.unpack_from(data), SYMBOLS.size, []
    if at + sum(n * form.size for n, form in zip(counts, (SYMBOL, NODE, GUARD, PATCH), strict=True)) != len(data):
        return None
    for count, form in zip(counts, (SYMBOL, NODE, GUARD, PATCH), strict=True):
        end = at + count * form.size
        parts.append(list(form.iter_unpack(memoryview(data)[at:end])))
        at = end
    return Symbols(*parts)


def symbols(parts: Parts) -> None:
    """Check SYMS, where it is there."""
    found = rows(parts)
    for name, zero, least, most, given, dim, factor, summand in found.symbols:
        need(not zero and name < parts.strings and 0 <= least <= most <= MOST, Verdict.SYMBOLS)
        need(given < len(parts.inputs) and 1 <= factor <= MOST_FACTOR and abs(summand) <= MOST, Verdict.SYMBOLS)
        need(dim < parts.tensors[parts.inputs[given]].rank, Verdict.SYMBOLS)
    _nodes(found)
    _patches(found, parts)
    values = bound(found.symbols, [parts.tensors[one].dim for one in parts.inputs])
    numbers = None if isinstance(values, int) else evaluated(found.nodes, values)
    if numbers is None or not holds(found.guards, numbers):
        raise BlobError(Verdict.SYMBOLS, "no sound blob: symbols")
    for kind, row, place, node in found.patches:
        need(_stored(parts, kind, row, place) == numbers[node], Verdict.SYMBOLS)


def _nodes(found: Symbols) -> None:
    for i, (kind, zero, a, b) in enumerate(found.nodes):
        need(kind <= max(Node) and not zero, Verdict.SYMBOLS)
        if kind == Node.CONST:
            need(abs(a) <= MOST and not b, Verdict.SYMBOLS)
        elif kind == Node.SYMBOL:
            need(0 <= a < len(found.symbols) and not b, Verdict.SYMBOLS)
        else:
            need(0 <= a < i and 0 <= b < i, Verdict.SYMBOLS)
    for node, zero, _, _ in found.guards:
        need(node < len(found.nodes) and not zero, Verdict.SYMBOLS)


def _patches(found: Symbols, parts: Parts) -> None:
    """Check that patches go where numbers are, each once: they are sorted."""
    before: tuple[int, ...] = (-1,)
    for kind, row, place, node in found.patches:
        need(before < (kind, row, place), Verdict.SYMBOLS)
        before = (kind, row, place)
        need(kind <= max(Patch) and node < len(found.nodes), Verdict.SYMBOLS)
        if kind == Patch.TENSOR:
            need(row < len(parts.tensors) and place <= 16, Verdict.SYMBOLS)
            tensor = parts.tensors[row]
            need(tensor.layout == Layout.STRIDED and (not place or (place - 1) % 8 < tensor.rank), Verdict.SYMBOLS)
            continue
        need(not place and row < len(parts.words if kind == Patch.WORD else parts.outputs), Verdict.SYMBOLS)
        need(kind == Patch.WORD or parts.outputs[row][0] == 2, Verdict.SYMBOLS)


def _stored(parts: Parts, kind: int, row: int, place: int) -> int:
    if kind == Patch.WORD:
        return parts.words[row]
    if kind == Patch.OUTPUT:
        return parts.outputs[row][2]
    tensor = parts.tensors[row]
    return (tensor.offset, *tensor.dim, *tensor.stride)[place]


def bound(rows: Sequence[tuple[int, ...]], shapes: Sequence[Sequence[int]]) -> list[int] | int:
    """Return the symbols' values of the shapes of inputs, or the number of the first symbol that gets none."""
    values = []
    for i, (_, _, least, most, given, dim, factor, summand) in enumerate(rows):
        value, rest = divmod(shapes[given][dim] - summand, factor)
        if rest or not least <= value <= most:
            return i
        values.append(value)
    return values


def evaluated(nodes: Sequence[tuple[int, ...]], symbols: Sequence[int]) -> list[int] | None:
    """Work out all nodes; None where one has no value, or one beyond the cap."""
    values: list[int] = []
    for kind, _, a, b in nodes:
        if kind in {Node.CONST, Node.SYMBOL}:
            values.append(a if kind == Node.CONST else symbols[a])
            continue
        made = evaluate_node(Node(kind), values[a], values[b])
        if made is None:
            return None
        values.append(made)
    return values


def holds(guards: Sequence[tuple[int, ...]], values: Sequence[int]) -> bool:
    """Whether every guard's number is between its bounds."""
    return all(least <= values[node] <= most for node, _, least, most in guards)
