"""Writer: the bytes of a compiled program; ``reader`` reads them, ``verify`` proves that they are sound.

All numbers are little-endian. A reader refuses another major version, and sections it does not know that are marked as
required; a higher minor version only adds sections that are not. ``docs/atalla/blob.md`` has it byte by byte.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.blob.arena import Arena, storage_bytes
from atalla.errors import CompileError
from atalla.isa import OPS, Op, OutputKind, PatchKind, Space
from atalla.isa.format import (
    CALL,
    ENDIAN,
    GUARD,
    HEADER,
    INITIAL,
    INSTRUCTION,
    LINE,
    MAGIC,
    MAJOR,
    MINOR,
    MOST_DIMS,
    NODE,
    NOTHING,
    OPTIONAL,
    OUTPUT,
    PAGE,
    PATCH,
    REQUIRED,
    SECTION,
    STEP,
    SYMBOL,
    SYMBOLS,
    TENSOR,
)
from atalla.plan import aligned

if TYPE_CHECKING:
    import torch

    from atalla.symbols import SymbolTable


@dataclass
class _Tables:
    """What the sections are made of."""

    strings: dict[str, int] = field(default_factory=dict)
    operands: list[int] = field(default_factory=list)
    tensors: list[ir.Tensor] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    """Number of each tensor by its identity."""

    def string(self, text: str) -> int:
        """Return the number of a string."""
        return self.strings.setdefault(text, len(self.strings))

    def tensor(self, tensor: ir.Tensor | None) -> int:
        """Return the number of a tensor; roots come before their views."""
        if tensor is None:
            return NOTHING
        if tensor.root is not None:
            self.tensor(tensor.root)
        if id(tensor) not in self.numbers:
            self.numbers[id(tensor)] = len(self.tensors)
            self.tensors.append(tensor)
        return self.numbers[id(tensor)]

    def operand(self, tensors: Iterable[ir.Tensor | None]) -> int:
        """Add a list of tensors; return where it begins."""
        numbers = [self.tensor(one) for one in tensors]
        start = len(self.operands)
        self.operands += numbers
        return start


def encode(program: ir.Program, meta: Mapping[str, Any], arena: Arena, shapes: SymbolTable | None = None) -> bytes:
    """Return the blob of a packed program whose arena was planned.

    Args:
        program: with numbers, no expressions, for dims.
        meta: what is told of it, beside the program.
        arena: where its tensors lie.
        shapes: what the numbers are worked out of, where it runs with inputs of several sizes.

    Raises:
        CompileError: more dims or sources than an instruction has room for.
    """
    tables = _Tables()
    for tensor in program.inputs:
        tables.tensor(tensor)
    instructions, words = _instructions(program, tables)
    outputs = b"".join(_output(one, tables) for one in program.outputs)
    inputs = struct.pack("<II", len(program.inputs), len(program.outputs))
    inputs += b"".join(OUTPUT.pack(0, tables.tensor(one), 0) for one in program.inputs)
    calls = b"".join(
        CALL.pack(tables.string(c.target), tables.string(c.arguments), tables.operand(c.outputs), len(c.outputs))
        for c in program.calls
    )
    constants, state, initial = _Block(), _Block(), bytearray()
    slots = {Space.INPUT: program.inputs, Space.OUTPUT: program.outputs}
    rows = []
    for tensor in tables.tensors:
        place = _place(tensor, arena, constants, state, slots)
        if tensor.root is None and tensor.space is Space.STATE:
            initial += _initial(tensor, place, constants)
        rows.append(_tensor(tensor, place, tables))
    certificate = {
        "arena": arena.plan.certificate,
        "arena_bytes": arena.plan.peak,
        "arena_bound": arena.plan.bound,
    }
    sections = {
        b"STRT": b"",
        b"OPER": struct.pack(f"<{len(tables.operands)}I", *tables.operands),
        b"TENS": b"".join(rows),
        b"INSN": instructions,
        b"ATTR": words,
        b"IOTB": inputs + outputs,
        b"HOST": calls,
        b"META": json.dumps({**meta, **certificate}, sort_keys=True).encode(),
    }
    if initial:
        sections[b"STAT"] = bytes(initial)
    if shapes is not None:
        sections[b"SYMS"] = symbols_section(program, shapes, tables)
    sections[b"STRT"] = _strings(tables.strings)
    sections[b"CNST"] = constants.bytes()
    return join_sections(sections, arena.plan.peak, state.size)


@dataclass
class _Block:
    """Bytes of constants, or of the state, one storage behind the other."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, size: int) -> int:
        """Add a storage; return where it begins."""
        start = aligned(self.size)
        self.size = start + size
        return start

    def put(self, data: bytes) -> int:
        """Add a storage that holds something; return where it begins."""
        self.parts += [bytes(-self.size % LINE), data]
        return self.add(len(data))

    def bytes(self) -> bytes:
        """Return all of it."""
        return b"".join(self.parts)


def _place(
    tensor: ir.Tensor, arena: Arena, constants: _Block, state: _Block, slots: Mapping[Space, Sequence[Any]]
) -> int:
    """Return where a storage is: bytes in its space, or the number of the caller's tensor; 0 for a view."""
    if tensor.root is not None:
        return 0
    if tensor.space is Space.ARENA:
        return arena.offsets.get(id(tensor), 0)
    if tensor.space is Space.CONST:
        return constants.put(bytes_of_constant(tensor))
    if tensor.space is Space.STATE:
        return state.add(storage_bytes(tensor))
    return next(i for i, one in enumerate(slots[tensor.space]) if one is tensor)


def _initial(state: ir.Tensor, place: int, constants: _Block) -> bytes:
    """Return the row that says what a state holds at first; none where that is zeros."""
    data = bytes_of_constant(state)
    return INITIAL.pack(place, constants.put(data), len(data)) if any(data) else b""


def symbols_section(program: ir.Program, shapes: SymbolTable, tables: _Tables) -> bytes:
    """Return SYMS."""
    patches = [(PatchKind.TENSOR, row, field, node) for row, one in enumerate(tables.tensors)
               for field, node in shapes.tensors.get(id(one), ())]  # fmt: skip
    word = 0
    for instruction in program.instructions:
        names = OPS[instruction.op].attributes
        found = shapes.attributes.get(id(instruction), {})
        patches += sorted((PatchKind.WORD, word + names.index(name), 0, node) for name, node in found.items())
        word += len(attribute_words(instruction)) // 8
    patches += [(PatchKind.OUTPUT, row, 0, node) for row, node in sorted(shapes.outputs.items())]
    symbols = ((tables.string(s.name), 0, s.least, s.most, s.input, s.dim, s.factor, s.summand) for s in shapes.symbols)
    parts = (
        (SYMBOL, symbols),
        (NODE, ((kind, 0, a, b) for kind, a, b in shapes.nodes)),
        (GUARD, ((node, 0, least, most) for node, least, most in shapes.guards)),
        (PATCH, patches),
    )
    head = SYMBOLS.pack(len(shapes.symbols), len(shapes.nodes), len(shapes.guards), len(patches))
    return head + b"".join(form.pack(*row) for form, rows in parts for row in rows)


def bytes_of_constant(tensor: ir.Tensor) -> bytes:
    """Return the bytes of a constant, in the order in which its elements lie."""
    import torch

    assert tensor.data is not None, "only constants have elements"
    data: torch.Tensor = tensor.data.detach()
    order = tensor.order if tensor.layout == 0 else tuple(range(data.dim()))
    assert order is not None, "constants are dense"
    flat = data.permute(order).flatten().clone(memory_format=torch.contiguous_format)  # one element may have any stride
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def _tensor(tensor: ir.Tensor, place: int, tables: _Tables) -> bytes:
    rank = len(tensor.shape)
    if rank > MOST_DIMS:
        raise CompileError(f"{tensor.name} has {rank} dims; an instruction has room for {MOST_DIMS}")
    dims, strides = (
        [int(one) for one in list(row) + [0] * (MOST_DIMS - rank)] for row in (tensor.shape, tensor.strides)
    )
    root, size = tables.tensor(tensor.storage), 0 if tensor.root else storage_bytes(tensor)
    head = (tensor.dtype, rank, tensor.storage.space, tensor.layout, root, int(tensor.offset), size, place)
    return TENSOR.pack(*head, *dims, *strides, tables.string(tensor.name), 0)


def _instructions(program: ir.Program, tables: _Tables) -> tuple[bytes, bytes]:
    rows, words = [], bytearray()
    for one in program.instructions:
        start = len(words) // 8
        words += attribute_words(one)
        at = tables.operand(one.sources)
        names = (tables.string(one.node), tables.string(one.line))
        count = len(words) // 8 - start
        rows.append(INSTRUCTION.pack(one.op, len(one.sources), tables.tensor(one.dst), at, start, count, *names, 0))
    rows.append(INSTRUCTION.pack(Op.END, 0, NOTHING, 0, 0, 0, tables.string(""), tables.string(""), 0))
    return b"".join(rows), bytes(words)


def attribute_words(instruction: ir.Instruction) -> bytes:
    """Return the attributes as words of 8 bytes, in the order of ``isa.OPS``."""
    found = bytearray()
    for name in OPS[instruction.op].attributes:
        if name == "steps…":
            for code, a, b, c in instruction.steps:
                found += STEP.pack(code, b, c, 0, a)
        elif name.endswith("."):
            found += struct.pack("<d", instruction.number(name[:-1]))
        elif not name.endswith("…"):
            found += struct.pack("<q", instruction.whole(name))
    return bytes(found)


def _output(value: Any, tables: _Tables) -> bytes:
    if isinstance(value, ir.Tensor):
        return OUTPUT.pack(OutputKind.TENSOR, tables.tensor(value), 0)
    if value is None:
        return OUTPUT.pack(OutputKind.NONE, NOTHING, 0)
    if isinstance(value, bool):
        return OUTPUT.pack(OutputKind.BOOL, NOTHING, int(value))
    if isinstance(value, int):
        return OUTPUT.pack(OutputKind.INT, NOTHING, value)
    if isinstance(value, float):
        return OUTPUT.pack(OutputKind.FLOAT, NOTHING, struct.unpack("<q", struct.pack("<d", value))[0])
    raise CompileError(f"an output of type {type(value).__name__} has no place in a blob")


def _strings(strings: Mapping[str, int]) -> bytes:
    """Return the number of strings, where each ends, and their bytes."""
    encoded = [text.encode() for text in strings]
    ends, end = [], 0
    for one in encoded:
        end += len(one)
        ends.append(end)
    return struct.pack(f"<I{len(ends)}I", len(ends), *ends) + b"".join(encoded)


def join_sections(sections: Mapping[bytes, bytes | bytearray], arena: int, state: int) -> bytes:
    """Return header, table of sections and sections."""
    at = HEADER.size + SECTION.size * len(sections)
    table, body = [], []
    for name, data in sections.items():
        align = PAGE if name == b"CNST" else 8
        padding = -at % align
        body += [bytes(padding), data]
        at += padding
        table.append(
            SECTION.pack(name, int(name in REQUIRED or name in OPTIONAL), at, len(data), align, zlib.crc32(data))
        )
        at += len(data)
    head = (MAGIC, MAJOR, MINOR, ENDIAN, len(sections), 0, at, arena, state)
    crc = zlib.crc32(b"".join(table), zlib.crc32(HEADER.pack(*head, 0)))
    return b"".join([HEADER.pack(*head, crc), *table, *body])
