"""Specialise: a blob for inputs of other sizes, as bytes; slow and plain what ``csrc/specialize.c`` does in place.

What comes out has no symbols, and goes through the strict loader like any other blob.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace

from atalla.blob.reader import Listing, section_rows
from atalla.blob.rows import TensorRow, need
from atalla.blob.verify import within_caps
from atalla.blob.verify_flow import written
from atalla.blob.verify_symbols import evaluate, holds
from atalla.blob.writer import join_sections
from atalla.errors import InputError
from atalla.isa import PatchKind, Space, Verdict
from atalla.isa.format import MOST_BYTES, MOST_DIMS, OUTPUT, TENSOR
from atalla.plan import Buffer, aligned, plan
from atalla.symbols import Symbol, bind


def specialize(listing: Listing, shapes: Sequence[Sequence[int]]) -> bytes:
    """Return the blob for inputs of these shapes.

    Args:
        listing: what a sound blob says.
        shapes: of all inputs.

    Raises:
        InputError: the program does not take them.
        BlobError: it is not sound for these shapes.
    """
    _ranks(listing, shapes)
    numbers = _numbers(listing, shapes)
    whole, tensors = memoryview(listing.data), list(listing.tensors)
    sections = {name: bytearray(whole[at : at + size]) for name, _, at, size, _, _ in section_rows(whole)}
    sections.pop(b"SYMS", None)
    for kind, row, field, node in listing.symbolic[3]:
        if kind == PatchKind.WORD:
            struct.pack_into("<q", sections[b"ATTR"], 8 * row, numbers[node])
        elif kind == PatchKind.OUTPUT:
            at = 8 + OUTPUT.size * (len(listing.inputs) + row) + OUTPUT.at("value")
            struct.pack_into("<q", sections[b"IOTB"], at, numbers[node])
        else:
            tensors[row] = _patched(tensors[row], field, numbers[node])
    need(all(map(within_caps, tensors)), Verdict.TENSOR)
    _resize(tensors)
    arena = _place(listing, tensors)
    _store(tensors, sections[b"TENS"])
    _compare(listing, tensors, shapes)
    meta = {key: value for key, value in listing.meta.items() if not key.startswith("arena")}
    sections[b"META"] = bytearray(json.dumps(meta).encode())
    return join_sections(sections, arena, listing.state_bytes)


def _ranks(listing: Listing, shapes: Sequence[Sequence[int]]) -> None:
    if len(shapes) != len(listing.inputs):
        raise InputError(f"{len(shapes)} inputs instead of {len(listing.inputs)}")
    for i, (number, shape) in enumerate(zip(listing.inputs, shapes, strict=True)):
        row = listing.tensors[number]
        if len(shape) != len(row.shape):
            raise InputError(f"input {i} ({row.name}) has {len(shape)} dims instead of {len(row.shape)}")


def _numbers(listing: Listing, shapes: Sequence[Sequence[int]]) -> list[int]:
    found = bind(listing.symbols, shapes)
    if isinstance(found, Symbol):
        name, first = listing.tensors[listing.inputs[found.input]].name, found.least * found.factor + found.summand
        span = f"{first} up" if found.most == MOST_BYTES else f"{first} to {found.most * found.factor + found.summand}"
        steps = f" in steps of {found.factor}" if found.factor > 1 else ""
        given = f"{shapes[found.input][found.dim]} in dim {found.dim}"
        raise InputError(f"input {found.input} ({name}) has {given}, which goes from {span}{steps}")
    _, nodes, guards, _ = listing.symbolic
    numbers = evaluate(nodes, found)
    if numbers is None:
        raise InputError("the inputs are too large")
    if not holds(guards, numbers):
        raise InputError("the program was not exported for these shapes")
    return numbers


def _compare(listing: Listing, tensors: Sequence[TensorRow], shapes: Sequence[Sequence[int]]) -> None:
    for i, (number, shape) in enumerate(zip(listing.inputs, shapes, strict=True)):
        for k, (have, want) in enumerate(zip(shape, tensors[number].shape, strict=True)):
            if have != want:
                raise InputError(f"input {i} ({tensors[number].name}) has {have} in dim {k} instead of {want}")


def _patched(tensor: TensorRow, field: int, value: int) -> TensorRow:
    if not field:
        return replace(tensor, offset=value)
    numbers = list(tensor.shape if field <= MOST_DIMS else tensor.strides)
    numbers[(field - 1) % MOST_DIMS] = value
    return replace(tensor, shape=tuple(numbers)) if field <= MOST_DIMS else replace(tensor, strides=tuple(numbers))


def _resize(tensors: list[TensorRow]) -> None:
    """Give storages that hold nothing yet the bytes that they need now."""
    for number, row in enumerate(tensors):
        if row.root == number and row.space not in {Space.CONST, Space.STATE}:
            tensors[number] = replace(row, bytes=row.reached_bytes)
            need(row.reached_bytes <= MOST_BYTES, Verdict.BOUNDS)


def _place(listing: Listing, tensors: list[TensorRow]) -> int:
    """Plan the arena again; return its bytes."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, row in enumerate(listing.instructions):
        for number in (*row.sources, *written(listing, row)):
            if number is not None:
                first.setdefault(tensors[number].root, at)
                last[tensors[number].root] = at
    arena = [i for i, row in enumerate(tensors) if row.root == i and row.space is Space.ARENA]
    need(sum(aligned(tensors[i].bytes) for i in arena) <= MOST_BYTES, Verdict.BOUNDS)
    found = plan([Buffer(tensors[i].bytes, first.get(i, 0), last.get(i, 0)) for i in arena])
    for i, offset in zip(arena, found.offsets, strict=True):
        tensors[i] = replace(tensors[i], place=offset)
    return found.peak


def _store(tensors: Sequence[TensorRow], rows: bytearray) -> None:
    for number, row in enumerate(tensors):
        at = TENSOR.size * number
        struct.pack_into("<qQq", rows, at + TENSOR.at("offset"), row.offset, row.bytes, row.place)
        struct.pack_into(f"<{row.rank}q", rows, at + TENSOR.at("dims"), *row.shape)
        struct.pack_into(f"<{row.rank}q", rows, at + TENSOR.at("strides"), *row.strides)
