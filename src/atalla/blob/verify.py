"""Verify: proves that bytes are a sound blob; the same verdict as the loader in C (``csrc/blob.c``) on every input.

The order of the checks is part of the verdict: both stop at the first that fails.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from atalla.blob.records import (
    CALL,
    ENDIAN,
    HEADER,
    INITIAL,
    INSTRUCTION,
    MAGIC,
    MOST_DIMS,
    NOTHING,
    OPTIONAL,
    OUTPUT,
    PAGE,
    REQUIRED,
    SECTION,
    TENSOR,
    Bytes,
    section_rows,
)
from atalla.errors import BlobError
from atalla.isa import Dtype, Layout, Op, Space, Verdict
from atalla.plan import ALIGN

MOST_SECTIONS, MOST_ROWS = 64, 1 << 20
MOST_BYTES = 1 << 40


@dataclass
class Row:
    """A tensor, as it stands in TENS."""

    dtype: int
    rank: int
    space: int
    layout: int
    root: int
    offset: int
    bytes: int
    place: int
    dim: list[int]
    stride: list[int]


@dataclass
class Step:
    """An instruction, as it stands in INSN."""

    op: int
    sources: Sequence[int]
    dst: int
    words: Sequence[int]
    """Attributes as int64."""


@dataclass
class Parts:
    """What has been read until now."""

    data: Bytes
    arena: int = 0
    state: int = 0
    sections: dict[bytes, Bytes] = field(default_factory=dict)
    strings: int = 0
    tensors: list[Row] = field(default_factory=list)
    operands: Sequence[int] = ()
    words: Sequence[int] = ()
    inputs: Sequence[int] = ()
    """Tensors."""
    outputs: Sequence[tuple[int, int, int]] = ()
    """Kind, tensor, value."""
    calls: list[tuple[int, int, int, int]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def verify(data: Bytes, *, constants: bool = False, trust: bool = False) -> None:
    """Look at everything, but at what constants are only where it is asked for: no run leaves its memory for them.

    Args:
        data: a blob.
        constants: compare them with their checksum, too.
        trust: it may call any operator on the host.

    Raises:
        BlobError: they are no sound blob; its ``code`` is the :class:`Verdict`.
    """
    from atalla.blob.verify_calls import check_calls

    parts = read(data)
    if not trust:
        check_calls(parts)
    if constants:
        check_constants(data)


def read(data: Bytes) -> Parts:
    """Look at everything but constants and the names of operators of the host; return what there is.

    Raises:
        BlobError: they are no sound blob.
    """
    from atalla.blob.verify_flow import flow
    from atalla.blob.verify_steps import instruction
    from atalla.blob.verify_symbols import symbols

    parts = Parts(data)
    for look in (_header, _sections, _strings, _tensors, _lists, _instructions):
        look(parts)
    for step in parts.steps:
        instruction(parts, step)
    flow(parts)
    symbols(parts)
    return parts


def check_constants(data: Bytes) -> None:
    """Compare the constants of a sound blob with their checksum.

    Raises:
        BlobError: they are others.
    """
    whole = memoryview(data)
    for name, _, at, size, _, crc in section_rows(data):
        need(name != b"CNST" or zlib.crc32(whole[at : at + size]) == crc, Verdict.CHECKSUM)


def need(holds: bool, verdict: Verdict) -> None:
    """End with a verdict unless something holds."""
    if not holds:
        raise BlobError(verdict, f"no sound blob: {(verdict.name or '').lower()}")


def _header(parts: Parts) -> None:
    data = parts.data
    need(len(data) >= HEADER.size, Verdict.SIZE)
    need(data[:8] == MAGIC, Verdict.MAGIC)
    _, major, _, endian, count, features, size, parts.arena, parts.state, crc = HEADER.unpack_from(data)
    need(endian == ENDIAN, Verdict.ENDIAN)
    need(major == 1 and features == 0, Verdict.VERSION)
    need(size == len(data), Verdict.SIZE)
    end = HEADER.size + SECTION.size * count
    need(count <= MOST_SECTIONS and end <= len(data), Verdict.HEADER)
    head = bytes(data[:48]) + bytes(4) + bytes(data[52 : HEADER.size])
    need(zlib.crc32(data[HEADER.size : end], zlib.crc32(head)) == crc, Verdict.HEADER)
    need(not any(data[52 : HEADER.size]), Verdict.HEADER)
    need(parts.arena <= MOST_BYTES and parts.state <= MOST_BYTES, Verdict.HEADER)


def _sections(parts: Parts) -> None:
    data, whole = parts.data, memoryview(parts.data)
    rows, known = section_rows(data), (*REQUIRED, *OPTIONAL)
    end = HEADER.size + SECTION.size * len(rows)
    for name, required, at, size, align, _ in rows:
        need(required <= 1 and (name in known or not required), Verdict.SECTION)
        need(align in {8, PAGE} and (name != b"CNST" or align == PAGE), Verdict.SECTION)
        need(at % align == 0 and end <= at <= len(data) and size <= len(data) - at, Verdict.SECTION)
        need(not any(whole[end:at]), Verdict.SECTION)
        if name in known:
            need(name not in parts.sections, Verdict.SECTION)
            parts.sections[name] = whole[at : at + size]
        end = at + size
    need(all(name in parts.sections for name in REQUIRED) and end == len(data), Verdict.SECTION)
    for name, _, at, size, _, crc in rows:
        need(name == b"CNST" or zlib.crc32(whole[at : at + size]) == crc, Verdict.CHECKSUM)


def _strings(parts: Parts) -> None:
    data = parts.sections[b"STRT"]
    need(len(data) >= 4, Verdict.STRINGS)
    (count,) = struct.unpack_from("<I", data)
    head, begin = 4 + 4 * count, 0
    need(head <= len(data), Verdict.STRINGS)
    for i in range(count):
        (end,) = struct.unpack_from("<I", data, 4 + 4 * i)
        need(begin <= end <= len(data) - head, Verdict.STRINGS)
        try:
            str(data[head + begin : head + end], "utf-8")
        except UnicodeDecodeError:
            need(holds=False, verdict=Verdict.STRINGS)
        begin = end
    need(begin == len(data) - head, Verdict.STRINGS)
    parts.strings = count


def _tensors(parts: Parts) -> None:
    data = parts.sections[b"TENS"]
    need(len(data) % TENSOR.size == 0 and len(data) // TENSOR.size <= MOST_ROWS, Verdict.TENSOR)
    for number, values in enumerate(TENSOR.iter_unpack(data)):
        dtype, rank, space, layout, root, offset, size, place, *rest = values
        dims, strides = rest[:MOST_DIMS], rest[MOST_DIMS : 2 * MOST_DIMS]
        row = Row(dtype, rank, space, layout, root, offset, size, place, dims, strides)
        _meaning(row, number, values[-2], values[-1], parts)
        parts.tensors.append(row)
    for number, row in enumerate(parts.tensors):
        _bounds(row, number, parts)


def _meaning(row: Row, number: int, name: int, zero: int, parts: Parts) -> None:
    """Check what a tensor says by itself."""
    need(1 <= row.dtype <= max(Dtype) and row.rank <= MOST_DIMS, Verdict.TENSOR)
    need(1 <= row.space <= max(Space) and row.layout <= max(Layout), Verdict.TENSOR)
    need(row.root <= number and name < parts.strings and not zero, Verdict.TENSOR)
    need(row.layout == Layout.STRIDED or (row.space == Space.CONST and row.root == number), Verdict.TENSOR)
    need(within_caps(row), Verdict.TENSOR)


def within_caps(row: Row) -> bool:
    """Whether dims and strides are in their caps, and those beyond the rank are zero."""
    return all(
        0 <= extent <= MOST_BYTES
        and -MOST_BYTES - 1 <= stride <= MOST_BYTES
        and (i < row.rank or not (extent or stride))
        for i, (extent, stride) in enumerate(zip(row.dim, row.stride, strict=True))
    )


def _bounds(row: Row, number: int, parts: Parts) -> None:
    """Check that a tensor stays in its storage, and a storage in its space."""
    root = parts.tensors[row.root]
    need(math.prod(extent or 1 for extent in row.dim) <= MOST_BYTES, Verdict.TENSOR)
    need(root.root == row.root and root.space == row.space, Verdict.TENSOR)
    need(row.root == number or root.layout == Layout.STRIDED, Verdict.TENSOR)
    size = Dtype(row.dtype).size
    ends = reach(row) if row.layout == Layout.STRIDED else None
    reached = 0 if ends is None else (ends[1] + 1) * size
    need((ends is None or ends[0] >= 0) and reached <= root.bytes, Verdict.BOUNDS)
    need(row.offset >= 0 and row.offset * size <= root.bytes, Verdict.BOUNDS)
    if row.root != number:
        need(not row.bytes and not row.place, Verdict.TENSOR)
        return
    need(row.offset == 0 and row.place >= 0, Verdict.TENSOR)
    if row.space in {Space.INPUT, Space.OUTPUT}:
        # The caller knows dims and strides, and gives no byte more.
        need(row.bytes <= MOST_BYTES and row.bytes == reached, Verdict.BOUNDS)
        return
    space = {Space.CONST: len(parts.sections[b"CNST"]), Space.ARENA: parts.arena}.get(Space(row.space), parts.state)
    need(row.place % ALIGN == 0 and row.bytes <= space and row.place <= space - row.bytes, Verdict.BOUNDS)
    if row.layout != Layout.STRIDED:
        need(row.dtype == Dtype.F32, Verdict.BOUNDS)
        need(row.rank == (2 if row.layout == Layout.DEPTHWISE else 3), Verdict.BOUNDS)
        need(row.layout != Layout.WINOGRAD or row.dim[1] == 36, Verdict.BOUNDS)


def reach(row: Row) -> tuple[int, int] | None:
    """Return the first and the last element of a view, from its root's first; None where it has none."""
    low = high = row.offset
    for extent, stride in zip(row.dim[: row.rank], row.stride, strict=False):
        if extent == 0:
            return None
        step = (extent - 1) * stride
        low, high = low + min(step, 0), high + max(step, 0)
    return low, high


def _lists(parts: Parts) -> None:
    oper, attr, host, io = (parts.sections[name] for name in (b"OPER", b"ATTR", b"HOST", b"IOTB"))
    need(len(oper) % 4 == 0 and len(attr) % 8 == 0 and len(host) % CALL.size == 0 and len(io) >= 8, Verdict.LISTS)
    need(len(host) // CALL.size <= MOST_ROWS, Verdict.LISTS)
    parts.operands = struct.unpack(f"<{len(oper) // 4}I", oper)
    parts.words = struct.unpack(f"<{len(attr) // 8}q", attr)
    inputs, outputs = struct.unpack_from("<II", io)
    need(8 + OUTPUT.size * (inputs + outputs) == len(io), Verdict.LISTS)
    count = len(parts.tensors)
    need(all(one == NOTHING or one < count for one in parts.operands), Verdict.LISTS)
    rows = list(OUTPUT.iter_unpack(io[8:]))
    for i, (kind, number, value) in enumerate(rows):
        space, place = (Space.INPUT, i) if i < inputs else (Space.OUTPUT, i - inputs)
        need(kind <= (0 if space is Space.INPUT else 4), Verdict.LISTS)
        if kind:
            need(number == NOTHING, Verdict.LISTS)
            continue
        need(number < count and value == 0, Verdict.LISTS)
        row = parts.tensors[number]
        need((row.root, row.space, row.place) == (number, space, place), Verdict.LISTS)
    for number, row in enumerate(parts.tensors):
        if row.root == number and row.space in {Space.INPUT, Space.OUTPUT}:
            mine = rows[:inputs] if row.space == Space.INPUT else rows[inputs:]
            need(row.place < len(mine), Verdict.LISTS)
            need(mine[row.place][:2] == (0, number), Verdict.LISTS)
    outputs = 0
    for name, arguments, first, made in CALL.iter_unpack(host):
        outputs += made
        need(name < parts.strings and arguments < parts.strings, Verdict.LISTS)
        need(first + made <= len(parts.operands) and outputs <= len(parts.operands), Verdict.LISTS)
        need(NOTHING not in parts.operands[first : first + made], Verdict.LISTS)
        parts.calls.append((name, arguments, first, made))
    parts.inputs, parts.outputs = [number for _, number, _ in rows[:inputs]], rows[inputs:]
    _initial(parts)


def _initial(parts: Parts) -> None:
    """Check that what the state holds at first lies in the constants, and goes into the state, each byte once."""
    data, end = parts.sections.get(b"STAT", b""), 0
    need(len(data) % INITIAL.size == 0 and len(data) // INITIAL.size <= MOST_ROWS, Verdict.LISTS)
    for to, at, size in INITIAL.iter_unpack(data):
        need(to >= end and size <= parts.state and to <= parts.state - size, Verdict.LISTS)
        constants = len(parts.sections[b"CNST"])
        need(size <= constants and at <= constants - size, Verdict.LISTS)
        end = to + size


def _instructions(parts: Parts) -> None:
    data = parts.sections[b"INSN"]
    need(len(data) % INSTRUCTION.size == 0 and 0 < len(data) // INSTRUCTION.size <= MOST_ROWS, Verdict.INSTRUCTION)
    rows = list(INSTRUCTION.iter_unpack(data))
    for i, (op, count, dst, at, word, words, node, line, zero) in enumerate(rows):
        need(op <= max(Op) and not zero, Verdict.INSTRUCTION)
        need((op == Op.END) == (i + 1 == len(rows)), Verdict.INSTRUCTION)
        need(node < parts.strings and line < parts.strings, Verdict.INSTRUCTION)
        need(at + count <= len(parts.operands) and word + words <= len(parts.words), Verdict.INSTRUCTION)
        has_dst = op not in {Op.END, Op.CALL_HOST}
        need(dst < len(parts.tensors) if has_dst else dst == NOTHING, Verdict.INSTRUCTION)
        parts.steps.append(Step(op, parts.operands[at : at + count], dst, parts.words[word : word + words]))


def rows_of(parts: Parts, numbers: Sequence[int]) -> Iterator[Row | None]:
    """Return tensors by their numbers."""
    return (None if one == NOTHING else parts.tensors[one] for one in numbers)
