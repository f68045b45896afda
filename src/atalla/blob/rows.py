"""Rows: what a blob says of a tensor, an instruction, an output or a call, as values that are never changed."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from atalla.dims import reach
from atalla.errors import BlobError
from atalla.isa import OPS, Dtype, Layout, Op, OutputKind, Space, Step, Verdict
from atalla.isa.format import NOTHING, STEP


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

    @property
    def rank(self) -> int:
        """Return the number of its dims."""
        return len(self.shape)

    @property
    def reach(self) -> tuple[int, int] | None:
        """Return the first and the last element, from the root's first; None where it has none."""
        return reach(self.offset, self.shape, self.strides)

    @property
    def reached_bytes(self) -> int:
        """Return the bytes from the root's first element to its own last one."""
        return 0 if self.reach is None else (self.reach[1] + 1) * self.dtype.size


@dataclass(frozen=True)
class InstructionRow:
    """An instruction as the blob describes it."""

    op: Op
    dst: int | None
    sources: tuple[int | None, ...]
    words: tuple[int, ...]
    """Attributes as they stand in ATTR."""
    node: str
    line: str

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """Return the attributes by their names in ``isa.OPS``."""
        found: dict[str, Any] = {}
        for i, name in enumerate(OPS[self.op].attributes):
            if name == "steps…":
                found["steps"] = tuple((Step(code), a, b, c) for code, b, c, _, a in map(step_fields, self.words))
            elif name.endswith("."):
                found[name[:-1]] = float64_of(self.words[i])
            elif not name.endswith("…"):
                found[name] = self.words[i]
        return found


@dataclass(frozen=True)
class OutputRow:
    """An input or an output as the blob describes it."""

    kind: OutputKind
    tensor: int
    bits: int

    @property
    def is_absent(self) -> bool:
        """Whether it names no tensor."""
        return self.tensor == NOTHING


@dataclass(frozen=True)
class CallRow:
    """A call of the host."""

    target: str
    arguments: str
    outputs: tuple[int, ...]


def need(holds: bool, verdict: Verdict) -> None:
    """End with a verdict unless something holds."""
    if not holds:
        raise BlobError(verdict, f"no sound blob: {verdict.name.lower()}")


def value_of(kind: OutputKind, bits: int) -> Any:
    """Return the value of an output that is no tensor."""
    made: Any = {
        OutputKind.NONE: None,
        OutputKind.INT: bits,
        OutputKind.FLOAT: float64_of(bits),
        OutputKind.BOOL: bool(bits),
    }[kind]
    return made


def float64_of(word: int) -> float:
    """Return the float64 of a word."""
    return float(struct.unpack("<d", struct.pack("<q", word))[0])


def step_fields(word: int) -> tuple[int, int, int, int, int]:
    """Return code, b, c, zero and a of a step."""
    code, b, c, zero, a = STEP.unpack_from(struct.pack("<q", word))
    return code, b, c, zero, a
