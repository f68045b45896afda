"""Disassembler: what a blob holds, as text that a person reads; names, places in memory, and the user's lines."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from atalla.blob.reader import Listing, parse
from atalla.blob.rows import InstructionRow, TensorRow
from atalla.dims import memory_order
from atalla.isa import (
    OPS,
    STEPS,
    Act,
    Layout,
    Norm,
    Op,
    Outside,
    Pool,
    Reduce,
    Resize,
    Sample,
    Scatter,
    Space,
    Step,
    float32_of,
)
from atalla.isa.format import MOST_BYTES, Bytes

_SIGN = {Step.ADD: "+", Step.SUB: "−", Step.MUL: "·", Step.DIV: "/", Step.EQ: "==", Step.NE: "!=", Step.LT: "<",
         Step.LE: "<=", Step.GT: ">", Step.GE: ">=", Step.AND: "&", Step.OR: "|", Step.XOR: "^"}  # fmt: skip

_SIDES = ("top", "left", "bottom", "right")


def disassemble(data: Bytes) -> Iterator[str]:
    """Return the lines of a listing of a sound blob.

    Raises:
        BlobError: the bytes do not begin as one.
    """
    return lines(parse(data))


def lines(listing: Listing) -> Iterator[str]:
    """Return the lines of what a sound blob says."""
    sizes = f"{len(listing.tensors)} tensors, arena {listing.arena_bytes:,} B, constants {listing.constant_bytes:,} B"
    if listing.state_bytes:
        sizes += f", state {listing.state_bytes:,} B"
    yield f"; atalla blob, {len(listing.data):,} B: {len(listing.instructions)} instructions, {sizes}"
    for key, value in sorted(listing.meta.items()):
        if value not in ({}, []):
            yield f"; {key}: {value}"
    for one in listing.symbols:
        scaled = f"{one.factor}·{one.name}" if one.factor > 1 else one.name
        extent = f"{scaled} {one.summand:+d}" if one.summand else scaled
        most = "" if one.most == MOST_BYTES else str(one.most)
        yield f"symbol  {one.name} {one.least}…{most}: dim {one.dim} of input {one.input} is {extent}"
    for title, numbers in (("input", listing.inputs), ("output", [v for k, v in listing.outputs if k == "tensor"])):
        for number in numbers:
            yield f"{title:<7} {tensor(listing, number)}"
    for number, row in enumerate(listing.instructions):
        yield instruction(listing, number, row)


def instruction(listing: Listing, number: int, row: InstructionRow) -> str:
    """Return the line of an instruction."""
    names = OPS[row.op].sources
    sources = []
    for i, source in enumerate(row.sources):
        if source is not None:
            name = names[i].rstrip("?") if i < len(names) and not names[-1].endswith("…") else f"%{i}"
            sources.append(f"{name}={tensor(listing, source)}")
    dst = f"{tensor(listing, row.dst)} ← " if row.dst is not None else ""
    if row.op is Op.CALL_HOST:
        call = listing.calls[row.attributes["call"]]
        dst = ", ".join(tensor(listing, one) for one in call.outputs) + f" ← {call.target} "
    attributes = " ".join(f"{key}={value}" for key, value in _pairs(_shown(row)).items())
    where = f"  ; {row.node}{f' at {row.line}' if row.line else ''}" if row.node else ""
    shown = f"{dst}{', '.join(sources)}{f' {{{attributes}}}' if attributes else ''}{where}"
    return f"{number:>5}  {row.op.name:<11} {shown}".rstrip()


def tensor(listing: Listing, number: int) -> str:
    """Return a tensor: its name, element type, shape, and where it lies."""
    row = listing.tensors[number]
    root = listing.tensors[row.root]
    shape = "×".join(map(str, row.shape)) or "scalar"
    return f"{row.name}:{row.dtype.name.lower()}[{shape}]{_layout(row)}@{_place(row, root)}"


def _layout(row: TensorRow) -> str:
    if row.layout is not Layout.STRIDED:
        return f" {row.layout.name.lower()}"
    step, plain = 1, True
    for extent, stride in zip(reversed(row.shape), reversed(row.strides), strict=True):
        plain = plain and (stride == step or extent == 1)
        step *= extent
    if plain:
        return ""
    is_nhwc = len(row.shape) == 4 and memory_order(row.shape, row.strides) == (0, 2, 3, 1)
    return " nhwc" if is_nhwc else f" ({','.join(map(str, row.strides))})"


def _place(row: TensorRow, root: TensorRow) -> str:
    if root.space in {Space.INPUT, Space.OUTPUT}:
        offset = f"+{row.offset * row.dtype.size:#x}" if row.offset else ""
        return f"{root.space.name.lower()}{root.place}{offset}"
    return f"{root.space.name.lower()}+{root.place + row.offset * row.dtype.size:#x}"


_KINDS: dict[Op, type[IntEnum]] = {
    Op.POOL2D: Pool, Op.REDUCE: Reduce, Op.NORM: Norm, Op.RESIZE2D: Resize, Op.SCATTER: Scatter, Op.SAMPLE2D: Sample,
}  # fmt: skip
"""What the attribute ``kind`` is."""


def _shown(row: InstructionRow) -> dict[str, Any]:
    """Return attributes that say something, by their names."""
    found: dict[str, Any] = {}
    for key, value in row.attributes.items():
        if key == "steps":
            found[key] = chain(len(row.sources), value)
        elif key in {"kind", "outside"}:
            found[key] = (Outside if key == "outside" else _KINDS[row.op])(value).name
        elif key == "act":
            if value:
                found[key] = Act(value).name
        elif key in {"low", "high"}:
            if row.attributes.get("act") == Act.CLAMP:
                found[key] = f"{value:g}"
        elif key == "dims" and row.op is Op.REDUCE:
            found[key] = [i for i in range(8) if value >> i & 1]
        elif value not in ({1} if key.startswith(("stride", "dilation", "groups")) else {0}):
            found[key] = f"{value:g}" if isinstance(value, float) else value
    return found


def _pairs(shown: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of height and width, and those of four sides, as one each: ``kernel=3×3``, ``pad=1,1,1,1``."""
    found: dict[str, Any] = {}
    for key, value in shown.items():
        stem, _, side = key.rpartition("_")
        if side in {"h", "w"}:
            rest = 0 if stem == "kernel" else 1
            found[stem] = f"{shown.get(f'{stem}_h', rest)}×{shown.get(f'{stem}_w', rest)}"
        elif key in _SIDES:
            found["pad"] = ",".join(str(shown.get(side, 0)) for side in _SIDES)
        else:
            found[key] = value
    return found


def chain(sources: int, steps: Any) -> str:
    """Return the steps of an EW as one expression for each: ``%2 = %0 + %1``."""
    texts = []
    for i, (code, a, b, c) in enumerate(steps):
        if code is Step.FLOAT:
            right = f"{float32_of(a):g}"
        elif code is Step.INT:
            right = str(a)
        elif code in _SIGN:
            right = f"%{a} {_SIGN[code]} %{b}"
        elif code is Step.WHERE:
            right = f"%{a} ? %{b} : %{c}"
        elif len(STEPS[code].operands) == 2:
            right = f"{code.name.lower()}(%{a}, %{b})"
        else:
            right = f"{code.name.lower()}(%{a})"
        texts.append(f"%{sources + i} = {right}")
    return f"[{'; '.join(texts)}]"
