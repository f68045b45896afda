"""Reader: what a blob says, as Python values; each section is read when it is asked for.

It trusts nothing: what has no meaning ends with its verdict. That the values fit each other is for ``verify`` to prove,
here or in C. No text that it returns can steer a terminal.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from atalla.blob.rows import CallRow, InstructionRow, OutputRow, TensorRow, need, value_of
from atalla.errors import BlobError
from atalla.isa import Dtype, Layout, Op, OutputKind, Space, Verdict
from atalla.isa.format import (
    CALL,
    ENDIAN,
    GUARD,
    HEADER,
    INITIAL,
    INSTRUCTION,
    MAGIC,
    MAJOR,
    MOST_BYTES,
    MOST_DIMS,
    MOST_ROWS,
    MOST_SECTIONS,
    NODE,
    NOTHING,
    OPTIONAL,
    OUTPUT,
    PAGE,
    PATCH,
    REQUIRED,
    SECTION,
    SYMBOL,
    SYMBOLS,
    TENSOR,
    Bytes,
    Record,
)
from atalla.plain import plain
from atalla.symbols import Symbol

Row = tuple[int, ...]
"""Fields of a record, in order."""
Meaning = TypeVar("Meaning", Dtype, Space, Layout, Op, OutputKind)


class Listing:
    """All that a blob says."""

    def __init__(self, data: Bytes) -> None:
        """Read the header.

        Raises:
            BlobError: it is not that of a blob.
        """
        self.data = data
        need(len(data) >= HEADER.size, Verdict.SIZE)
        need(data[:8] == MAGIC, Verdict.MAGIC)
        _, major, _, endian, count, features, size, self.arena_bytes, self.state_bytes, crc = HEADER.unpack_from(data)
        need(endian == ENDIAN, Verdict.ENDIAN)
        need(major == MAJOR and features == 0, Verdict.VERSION)
        need(size == len(data), Verdict.SIZE)
        end, at = HEADER.size + SECTION.size * count, HEADER.at("crc")
        need(count <= MOST_SECTIONS and end <= len(data), Verdict.HEADER)
        zeros = data[HEADER.at("zeros") : HEADER.size]
        head = zlib.crc32(bytes(data[:at]) + bytes(4) + bytes(zeros))
        need(zlib.crc32(data[HEADER.size : end], head) == crc and not any(zeros), Verdict.HEADER)
        need(self.arena_bytes <= MOST_BYTES and self.state_bytes <= MOST_BYTES, Verdict.HEADER)

    @cached_property
    def sections(self) -> Mapping[bytes, memoryview]:
        """Return the sections that are known, and META; their checksums are not looked at."""
        whole, rows, known = memoryview(self.data), section_rows(self.data), (*REQUIRED, *OPTIONAL)
        end, found = HEADER.size + SECTION.size * len(rows), {}
        for name, required, at, size, align, _ in rows:
            need(required <= 1 and (name in known or not required), Verdict.SECTION)
            need(align in {8, PAGE} and (name != b"CNST" or align == PAGE), Verdict.SECTION)
            need(at % align == 0 and end <= at <= len(whole) and size <= len(whole) - at, Verdict.SECTION)
            need(not any(whole[end:at]), Verdict.SECTION)
            need(name not in known or name not in found, Verdict.SECTION)
            if name in known or name == b"META":
                found[name] = whole[at : at + size]
            end = at + size
        need(all(name in found for name in REQUIRED) and end == len(whole), Verdict.SECTION)
        return found

    @property
    def constant_bytes(self) -> int:
        """Return the bytes of CNST."""
        return len(self.sections[b"CNST"])

    @cached_property
    def strings(self) -> Sequence[str]:
        """Return the strings, as they may be shown."""
        data, texts, begin = self.sections[b"STRT"], [], 0
        need(len(data) >= 4, Verdict.STRINGS)
        (count,) = struct.unpack_from("<I", data)
        body = data[4 + 4 * count :]
        need(4 + 4 * count <= len(data), Verdict.STRINGS)
        for end in struct.unpack_from(f"<{count}I", data, 4):
            need(begin <= end <= len(body), Verdict.STRINGS)
            try:
                texts.append(plain(str(body[begin:end], "utf-8")))
            except UnicodeDecodeError:
                need(holds=False, verdict=Verdict.STRINGS)
            begin = end
        need(begin == len(body), Verdict.STRINGS)
        return texts

    @cached_property
    def tensors(self) -> tuple[TensorRow, ...]:
        """Return TENS."""
        return tuple(map(self._tensor, self._rows(b"TENS", TENSOR, Verdict.TENSOR)))

    def _tensor(self, row: Row) -> TensorRow:
        dtype, rank, space, layout, root, offset, size, place, *rest, name, zero = row
        need(rank <= MOST_DIMS and not zero, Verdict.TENSOR)
        dims, strides = rest[:MOST_DIMS], rest[MOST_DIMS:]
        need(not any(dims[rank:]) and not any(strides[rank:]), Verdict.TENSOR)
        return TensorRow(
            self._string(name, Verdict.TENSOR),
            _meaning(Dtype, dtype, Verdict.TENSOR),
            tuple(dims[:rank]),
            tuple(strides[:rank]),
            _meaning(Space, space, Verdict.TENSOR),
            _meaning(Layout, layout, Verdict.TENSOR),
            *(root, offset, size, place),
        )

    @cached_property
    def operands(self) -> tuple[int | None, ...]:
        """Return OPER: tensors; None for what is absent."""
        numbers = self._numbers(b"OPER", "I", 4)
        need(all(one == NOTHING or one < len(self.tensors) for one in numbers), Verdict.LISTS)
        return tuple(None if one == NOTHING else one for one in numbers)

    @cached_property
    def words(self) -> tuple[int, ...]:
        """Return ATTR."""
        return self._numbers(b"ATTR", "q", 8)

    def _numbers(self, name: bytes, form: str, size: int) -> tuple[int, ...]:
        data = self.sections[name]
        need(len(data) % size == 0, Verdict.LISTS)
        return struct.unpack(f"<{len(data) // size}{form}", data)

    @cached_property
    def ends(self) -> tuple[tuple[OutputRow, ...], tuple[OutputRow, ...]]:
        """Return IOTB: inputs and outputs."""
        data = self.sections[b"IOTB"]
        need(len(data) >= 8, Verdict.LISTS)
        inputs, outputs = struct.unpack_from("<II", data)
        need(8 + OUTPUT.size * (inputs + outputs) == len(data), Verdict.LISTS)
        rows = tuple(
            OutputRow(_meaning(OutputKind, kind, Verdict.LISTS), number, bits)
            for kind, number, bits in OUTPUT.iter_unpack(data[8:])
        )
        return rows[:inputs], rows[inputs:]

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Return the tensors that are inputs."""
        return tuple(row.tensor for row in self.ends[0])

    @cached_property
    def outputs(self) -> tuple[Any, ...]:
        """Return the number of a tensor as ``("tensor", n)``, else a value as ``("value", v)``."""
        return tuple(
            ("value", value_of(row.kind, row.bits)) if row.kind else ("tensor", row.tensor) for row in self.ends[1]
        )

    @cached_property
    def calls(self) -> tuple[CallRow, ...]:
        """Return HOST."""
        rows = list(self._rows(b"HOST", CALL, Verdict.LISTS))
        need(sum(count for *_, count in rows) <= len(self.operands), Verdict.LISTS)
        return tuple(map(self._call, rows))

    def _call(self, row: Row) -> CallRow:
        name, arguments, first, count = row
        need(first + count <= len(self.operands), Verdict.LISTS)
        outputs = tuple(one for one in self.operands[first : first + count] if one is not None)
        need(len(outputs) == count, Verdict.LISTS)
        return CallRow(self._string(name, Verdict.LISTS), self._string(arguments, Verdict.LISTS), outputs)

    @cached_property
    def initial(self) -> tuple[Row, ...]:
        """Return STAT, what the state holds at first: place in it, place in the constants, bytes."""
        return tuple(self._rows(b"STAT", INITIAL, Verdict.LISTS))

    @cached_property
    def instructions(self) -> tuple[InstructionRow, ...]:
        """Return INSN."""
        return tuple(map(self._instruction, self._rows(b"INSN", INSTRUCTION, Verdict.INSTRUCTION)))

    def _instruction(self, row: Row) -> InstructionRow:
        op, count, dst, first, word, words, node, line, zero = row
        known = _meaning(Op, op, Verdict.INSTRUCTION)
        need(not zero and first + count <= len(self.operands), Verdict.INSTRUCTION)
        need(word + words <= len(self.words), Verdict.INSTRUCTION)
        need(dst == NOTHING if known in {Op.END, Op.CALL_HOST} else dst < len(self.tensors), Verdict.INSTRUCTION)
        return InstructionRow(
            known,
            None if dst == NOTHING else dst,
            self.operands[first : first + count],
            self.words[word : word + words],
            self._string(node, Verdict.INSTRUCTION),
            self._string(line, Verdict.INSTRUCTION),
        )

    @cached_property
    def symbolic(self) -> tuple[Sequence[Row], ...]:
        """Return SYMS: symbols, nodes, guards and patches."""
        data = self.sections.get(b"SYMS", memoryview(bytes(SYMBOLS.size)))
        need(len(data) >= SYMBOLS.size, Verdict.SYMBOLS)
        records, at, found = (SYMBOL, NODE, GUARD, PATCH), SYMBOLS.size, []
        for count, record in zip(SYMBOLS.unpack_from(data), records, strict=True):
            end = at + count * record.size
            need(end <= len(data), Verdict.SYMBOLS)
            found.append(list(record.iter_unpack(data[at:end])))
            at = end
        need(at == len(data), Verdict.SYMBOLS)
        return tuple(found)

    @cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """Return the sizes that inputs may have."""
        return tuple(Symbol(self._string(name, Verdict.SYMBOLS), *rest) for name, _, *rest in self.symbolic[0])

    @cached_property
    def meta(self) -> Mapping[str, Any]:
        """Return META, at which no loader looks, because nothing depends on it."""
        try:
            found = json.loads(bytes(self.sections.get(b"META", b"{}")))
        except (ValueError, RecursionError):
            return {}
        return {key: _shown(value) for key, value in found.items()} if isinstance(found, dict) else {}

    def _rows(self, name: bytes, record: Record, verdict: Verdict) -> Iterator[Row]:
        data = self.sections.get(name, memoryview(b""))
        need(len(data) % record.size == 0 and len(data) // record.size <= MOST_ROWS, verdict)
        return record.iter_unpack(data)

    def _string(self, number: int, verdict: Verdict) -> str:
        need(number < len(self.strings), verdict)
        return self.strings[number]


def parse(data: Bytes) -> Listing:
    """Return what a sound blob says.

    Raises:
        BlobError: not even its beginning is that of one.
    """
    return Listing(data)


def section_rows(data: Bytes) -> list[tuple[bytes, int, int, int, int, int]]:
    """Return the table of sections of a blob whose header is sound."""
    (count,) = struct.unpack_from("<I", data, HEADER.at("sections"))
    return [SECTION.unpack_from(data, HEADER.size + SECTION.size * i) for i in range(count)]


def _meaning(kind: Callable[[int], Meaning], number: int, verdict: Verdict) -> Meaning:
    """Return what a number means."""
    try:
        return kind(number)
    except ValueError:
        raise BlobError(verdict, f"no sound blob: {verdict.name.lower()}") from None


def _shown(value: Any) -> Any:
    """Return what stands in META with all text in it printable."""
    if isinstance(value, dict):
        return {plain(key): _shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return plain(value) if isinstance(value, str) else value
