"""Specialise: a blob for inputs of other sizes, as bytes; slow and plain what ``csrc/specialize.c`` does in place.

What comes out has no symbols, and goes through the strict loader like any other blob.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

from atalla.blob.reader import Listing, parse
from atalla.blob.records import OUTPUT, Bytes, section_rows
from atalla.blob.verify import Parts, need, reach, read, within_caps
from atalla.blob.verify_symbols import Symbols, bound, evaluated, holds, rows
from atalla.blob.writer import joined
from atalla.errors import InputError
from atalla.isa import Dtype, Op, Patch, Space, Verdict
from atalla.plan import Buffer, aligned, plan
from atalla.symbols import MOST

OFFSET, SIZE, PLACE, DIMS = 8, 16, 24, 32
"""Where a row of TENS has them; strides come right behind the dims."""
ROW = 168


def specialize(data: Bytes, shapes: Sequence[Sequence[int]]) -> bytes:
    """Return the blob for inputs of these shapes.

    Args:
        data: a blob.
        shapes: of all inputs.

    Raises:
        InputError: the program does not take them.
        BlobError: it is no sound blob, or not sound for these shapes.
    """
    parts, listing = read(data), parse(data)
    _ranks(listing, shapes)
    symbols = rows(parts)
    numbers = _numbers(listing, symbols, shapes)
    sections = {name: bytearray(memoryview(data)[at : at + size]) for name, _, at, size, _, _ in section_rows(data)}
    sections.pop(b"SYMS", None)
    for kind, row, place, node in symbols.patches:
        if kind == Patch.WORD:
            struct.pack_into("<q", sections[b"ATTR"], 8 * row, numbers[node])
        elif kind == Patch.OUTPUT:
            at = 8 + OUTPUT.size * (len(parts.inputs) + row) + 8
            struct.pack_into("<q", sections[b"IOTB"], at, numbers[node])
        else:
            _write(parts, row, place, numbers[node])
    need(all(within_caps(one) for one in parts.tensors), Verdict.TENSOR)
    _resize(parts)
    arena = _place(parts)
    _store(parts, sections[b"TENS"])
    _compare(listing, parts, shapes)
    meta = {key: value for key, value in listing.meta.items() if not key.startswith("arena")}
    sections[b"META"] = bytearray(json.dumps(meta).encode())
    return joined(sections, arena, parts.state)


def _ranks(listing: Listing, shapes: Sequence[Sequence[int]]) -> None:
    if len(shapes) != len(listing.inputs):
        raise InputError(f"{len(shapes)} inputs instead of {len(listing.inputs)}")
    for i, (number, shape) in enumerate(zip(listing.inputs, shapes, strict=True)):
        row = listing.tensors[number]
        if len(shape) != len(row.shape):
            raise InputError(f"input {i} ({row.name}) has {len(shape)} dims instead of {len(row.shape)}")


def _numbers(listing: Listing, symbols: Symbols, shapes: Sequence[Sequence[int]]) -> list[int]:
    values = bound(symbols.symbols, shapes)
    if isinstance(values, int):
        _, _, least, most, given, dim, factor, summand = symbols.symbols[values]
        name, first = listing.tensors[listing.inputs[given]].name, least * factor + summand
        span = f"{first} up" if most == MOST else f"{first} to {most * factor + summand}"
        steps = f" in steps of {factor}" if factor > 1 else ""
        raise InputError(f"input {given} ({name}) has {shapes[given][dim]} in dim {dim}, which goes from {span}{steps}")
    numbers = evaluated(symbols.nodes, values)
    if numbers is None:
        raise InputError("the inputs are too large")
    if not holds(symbols.guards, numbers):
        raise InputError("the program was not exported for these shapes")
    return numbers


def _compare(listing: Listing, parts: Parts, shapes: Sequence[Sequence[int]]) -> None:
    for i, (number, shape) in enumerate(zip(listing.inputs, shapes, strict=True)):
        for k, (have, want) in enumerate(zip(shape, parts.tensors[number].dim, strict=False)):
            if have != want:
                name = listing.tensors[number].name
                raise InputError(f"input {i} ({name}) has {have} in dim {k} instead of {want}")


def _write(parts: Parts, row: int, place: int, value: int) -> None:
    tensor = parts.tensors[row]
    if not place:
        tensor.offset = value
    elif place <= len(tensor.dim):
        tensor.dim[place - 1] = value
    else:
        tensor.stride[place - 1 - len(tensor.dim)] = value


def _resize(parts: Parts) -> None:
    """Return storages that hold nothing yet the bytes that they need now."""
    for number, row in enumerate(parts.tensors):
        if row.root == number and row.space not in {Space.CONST, Space.STATE}:
            ends = reach(row)
            row.bytes = 0 if ends is None else (ends[1] + 1) * Dtype(row.dtype).size
            need(row.bytes <= MOST, Verdict.BOUNDS)


def _place(parts: Parts) -> int:
    """Plan the arena anew; return its bytes."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, step in enumerate(parts.steps):
        made: Sequence[int] = [step.dst]
        if step.op == Op.CALL_HOST:
            _, _, begin, count = parts.calls[step.words[0]]
            made = parts.operands[begin : begin + count]
        for number in (*step.sources, *made):
            if number < len(parts.tensors):
                root = parts.tensors[number].root
                first.setdefault(root, at)
                last[root] = at
    arena = [i for i, row in enumerate(parts.tensors) if row.root == i and row.space == Space.ARENA]
    need(sum(aligned(parts.tensors[i].bytes) for i in arena) <= MOST, Verdict.BOUNDS)
    found = plan([Buffer(parts.tensors[i].bytes, first.get(i, 0), last.get(i, 0)) for i in arena])
    for i, offset in zip(arena, found.offsets, strict=True):
        parts.tensors[i].place = offset
    return found.peak


def _store(parts: Parts, rows: bytearray) -> None:
    for i, row in enumerate(parts.tensors):
        struct.pack_into("<q", rows, ROW * i + OFFSET, row.offset)
        struct.pack_into("<Qq", rows, ROW * i + SIZE, row.bytes, row.place)
        struct.pack_into("<16q", rows, ROW * i + DIMS, *row.dim, *row.stride)
