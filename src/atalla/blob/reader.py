"""Loader: what a blob says, as Python values; for the disassembler, the runtime and the profile.

It trusts nothing either: :func:`parse` is only called with bytes that the strict loader found sound, and no text that
it gives can steer a terminal.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from atalla.blob.records import (
    CALL,
    HEADER,
    INITIAL,
    INSTRUCTION,
    MAGIC,
    NOTHING,
    OUTPUT,
    SYMBOL,
    SYMBOLS,
    TENSOR,
    Bytes,
    section_rows,
)
from atalla.errors import BlobError
from atalla.isa import OPS, Dtype, Layout, Op, Space, Step, Verdict
from atalla.plain import plain


@dataclass(frozen=True)
class TensorRow:
    """A tensor as the blob describes it."""

    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    space: Space
    layout: Layout
    root: int
    offset: int
    """Elements."""
    bytes: int
    place: int
    """Bytes in its space, or the number of the caller's tensor."""


@dataclass(frozen=True)
class InstructionRow:
    """An instruction as the blob describes it."""

    op: Op
    dst: int | None
    sources: tuple[int | None, ...]
    attributes: Mapping[str, Any]
    node: str
    line: str


@dataclass(frozen=True)
class CallRow:
    """A call of the host."""

    target: str
    arguments: str
    outputs: tuple[int, ...]


@dataclass(frozen=True)
class SymbolRow:
    """A size that is known when inputs are: dim ``dim`` of input ``input`` is ``factor · symbol + summand``."""

    name: str
    least: int
    most: int
    input: int
    dim: int
    factor: int
    summand: int


@dataclass(frozen=True)
class Listing:
    """All that a blob says."""

    tensors: tuple[TensorRow, ...]
    instructions: tuple[InstructionRow, ...]
    inputs: tuple[int, ...]
    outputs: tuple[Any, ...]
    """The number of a tensor as ``("tensor", n)``, else a value as ``("value", v)``."""
    calls: tuple[CallRow, ...]
    meta: Mapping[str, Any]
    arena_bytes: int
    constant_bytes: int
    state_bytes: int
    initial: tuple[tuple[int, int, int], ...]
    """What the state holds at first: place in it, place in the constants, bytes."""
    symbols: tuple[SymbolRow, ...]
    """Sizes that inputs may have."""


def parse(data: Bytes) -> Listing:
    """Read a sound blob.

    Raises:
        BlobError: not even its beginning is that of one.
    """
    if len(data) < HEADER.size or data[:8] != MAGIC:
        raise BlobError(Verdict.MAGIC, "no sound blob: it does not begin as one")
    head = HEADER.unpack_from(data)
    whole, sections, constant_bytes = memoryview(data), {}, 0
    for name, _, at, size, _, _ in section_rows(data):
        if name == b"CNST":
            constant_bytes = size
        else:
            sections[name] = bytes(whole[at : at + size])
    strings = _strings(sections[b"STRT"])
    operands = struct.unpack(f"<{len(sections[b'OPER']) // 4}I", sections[b"OPER"])
    tensors = tuple(_tensor(row, strings) for row in TENSOR.iter_unpack(sections[b"TENS"]))
    instructions = tuple(_instructions(sections, strings, operands))
    rows = list(OUTPUT.iter_unpack(sections[b"IOTB"][8:]))
    inputs, _ = struct.unpack_from("<II", sections[b"IOTB"])
    calls = tuple(
        CallRow(strings[name], strings[arguments], operands[at : at + count])
        for name, arguments, at, count in CALL.iter_unpack(sections[b"HOST"])
    )
    return Listing(
        tensors,
        instructions,
        tuple(number for _, number, _ in rows[:inputs]),
        tuple(_output(*row) for row in rows[inputs:]),
        calls,
        _meta(sections.get(b"META", b"{}")),
        head[7],
        constant_bytes,
        head[8],
        tuple(INITIAL.iter_unpack(sections.get(b"STAT", b""))),
        tuple(_symbols(sections.get(b"SYMS", bytes(SYMBOLS.size)), strings)),
    )


def _meta(data: bytes) -> dict[str, Any]:
    """Read what the loader does not look at, because nothing depends on it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return {key: _shown(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _shown(value: Any) -> Any:
    """Return what stands in META with all text in it printable."""
    if isinstance(value, dict):
        return {plain(key): _shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return plain(value) if isinstance(value, str) else value


def _symbols(data: bytes, strings: list[str]) -> Iterator[SymbolRow]:
    count = SYMBOLS.unpack_from(data)[0]
    for name, _, *rest in SYMBOL.iter_unpack(data[SYMBOLS.size : SYMBOLS.size + count * SYMBOL.size]):
        yield SymbolRow(strings[name], *rest)


def _strings(data: bytes) -> list[str]:
    (count,) = struct.unpack_from("<I", data)
    ends = struct.unpack_from(f"<{count}I", data, 4)
    body = data[4 + 4 * count :]
    return [plain(body[start:end].decode()) for start, end in zip((0, *ends[:-1]), ends, strict=True)]


def _tensor(row: tuple[int, ...], strings: list[str]) -> TensorRow:
    dtype, rank, space, layout, root, offset, size, place, *rest = row
    shape, strides = tuple(rest[:rank]), tuple(rest[8 : 8 + rank])
    return TensorRow(
        strings[rest[16]], Dtype(dtype), shape, strides, Space(space), Layout(layout), root, offset, size, place
    )


def _instructions(
    sections: Mapping[bytes, bytes], strings: list[str], operands: tuple[int, ...]
) -> Iterator[InstructionRow]:
    for op, count, dst, at, word, words, node, line, _ in INSTRUCTION.iter_unpack(sections[b"INSN"]):
        sources = tuple(None if one == NOTHING else one for one in operands[at : at + count])
        attributes = _attributes(Op(op), sections[b"ATTR"][8 * word : 8 * (word + words)])
        yield InstructionRow(Op(op), None if dst == NOTHING else dst, sources, attributes, strings[node], strings[line])


def _attributes(op: Op, words: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i, name in enumerate(OPS[op].attributes):
        if name == "steps…":
            rows = struct.iter_unpack("<BBBxi", words)
            found["steps"] = tuple((Step(code), a, b, c) for code, b, c, a in rows)
        elif name.endswith("."):
            (found[name[:-1]],) = struct.unpack_from("<d", words, 8 * i)
        elif not name.endswith("…"):
            (found[name],) = struct.unpack_from("<q", words, 8 * i)
    return found


def _output(kind: int, number: int, value: int) -> Any:
    if kind == 0:
        return ("tensor", number)
    made: Any = {1: None, 2: value, 3: struct.unpack("<d", struct.pack("<q", value))[0], 4: bool(value)}[kind]
    return ("value", made)
