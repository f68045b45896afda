"""IR: what passes read and change: tensors that are strided views of storages, and instructions in order.

A storage is written by instructions and read afterwards; nothing is written twice, so a view of it is always safe.
Views keep no chain: each is of a root, a tensor that is its own storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from atalla.dims import Dim, contiguous_strides, memory_order, overlapping, product, simplify
from atalla.isa import Dtype, Layout, Op, Space

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Grid:
    """What a constant was dequantised from: it is ``numbers · steps``."""

    numbers: torch.Tensor
    """int8, and they lie as the constant's elements do."""
    steps: torch.Tensor
    """float32, one for each channel of the axis, or one for all."""
    axis: int


@dataclass(eq=False)
class Tensor:
    """A strided view of a storage; a root is its own storage."""

    name: str
    dtype: Dtype
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]
    """Elements."""
    space: Space = Space.ARENA
    root: Tensor | None = None
    """Whose storage it is a view of; None for a root."""
    offset: Dim = 0
    """Elements from the beginning of the root's storage, counted in the view's own element type."""
    layout: Layout = Layout.STRIDED
    data: torch.Tensor | None = None
    """Elements of a CONST root, as they lie in the blob; of a STATE root, those that it has at first."""
    grid: Grid | None = None
    """Of a CONST root: the whole numbers that it was made of."""
    is_exact: bool = False
    """Of a CONST root: it stays as it is, whatever precision weights have; a table, not a weight."""

    @property
    def storage(self) -> Tensor:
        """Return the root."""
        return self.root or self

    @property
    def elements(self) -> Dim:
        """Number of elements."""
        return product(self.shape)

    @property
    def order(self) -> tuple[int, ...] | None:
        """Return the order of its dims in memory, the outermost first; None where it is not dense."""
        return memory_order(self.shape, self.strides)

    @property
    def is_contiguous(self) -> bool:
        """Whether its dims lie in memory in their own order, without gaps."""
        return self.order == tuple(range(len(self.shape)))

    def view(self, shape: Sequence[Dim], strides: Sequence[Dim], offset: Dim = 0) -> Tensor:
        """Return another view of the same storage; the offset is from the beginning of this one, in elements.

        What has no elements begins where the storage does: it may be the part behind the last one.
        """
        is_empty = any(isinstance(extent, int) and extent == 0 for extent in shape)
        return Tensor(
            self.name,
            self.dtype,
            tuple(shape),
            tuple(strides),
            self.storage.space,
            self.storage,
            0 if is_empty else simplify(self.offset + offset),
        )

    def narrow(self, axis: int, start: Dim, extent: Dim) -> Tensor:
        """Return the part of a dim that begins at ``start`` and has so many elements."""
        shape = [extent if i == axis else n for i, n in enumerate(self.shape)]
        return self.view(shape, self.strides, start * self.strides[axis])

    def __repr__(self) -> str:
        dims = "×".join(map(str, self.shape)) or "scalar"
        where = f"@{self.root.name}+{self.offset}" if self.root else str(self.space.name)
        return f"{self.name}:{self.dtype.name}[{dims}]{where}"


@dataclass(frozen=True)
class Complex:
    """Complex numbers, as pairs of real ones."""

    pairs: Tensor
    """Real and imaginary parts; its last dim, of 2, the complex tensor does not have."""


def new_storage(name: str, dtype: Dtype, shape: Iterable[Dim], strides: Iterable[Dim] | None = None) -> Tensor:
    """Return a new storage in the arena; contiguous where the strides are not given, or would share elements."""
    shape = tuple(shape)
    given = None if strides is None else tuple(strides)
    return Tensor(
        name, dtype, shape, contiguous_strides(shape) if given is None or overlapping(shape, given) else given
    )


Steps: TypeAlias = Sequence[tuple[int, int, int, int]]
"""Of an EW: ``code, a, b, c`` each."""


@dataclass(eq=False)
class Instruction:
    """One operation."""

    op: Op
    dst: Tensor | None
    sources: tuple[Tensor | None, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """By the names of ``isa.OPS``; absent ones are zero."""
    node: str = ""
    """The FX node that it comes from."""
    line: str = ""
    """The user's line of Python: ``model.py:12 in forward``."""

    @property
    def reads(self) -> list[Tensor]:
        """Return the sources that are there."""
        return [source for source in self.sources if source is not None]

    @property
    def steps(self) -> Steps:
        """Return the steps of an EW."""
        found: Steps = self.attributes["steps"]
        return found

    def whole(self, name: str) -> int:
        """Return an attribute that is a whole number."""
        value = self.attributes.get(name, 0)
        assert isinstance(value, int), f"{self.op.name}.{name} is no whole number"
        return value

    def number(self, name: str) -> float:
        """Return an attribute that may be a fraction."""
        value = self.attributes.get(name, 0.0)
        assert isinstance(value, float | int), f"{self.op.name}.{name} is no number"
        return float(value)


@dataclass
class HostCall:
    """An operator that runs on the host."""

    target: str
    """As torch names it: ``aten.sort.default``."""
    arguments: str
    """JSON: positional and named arguments, tensors by the number of the call's operands; which outputs are kept."""
    outputs: tuple[Tensor, ...]
    """What it writes."""


@dataclass
class Program:
    """A compiled graph."""

    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)
    calls: list[HostCall] = field(default_factory=list)
    ranges: dict[Dim, tuple[int, int, int]] = field(default_factory=dict)
    """Of each symbol: the least and the most that it may be, and what it is in the example."""
    guards: list[Dim] = field(default_factory=list)
    """Relations between dims without which the program does not hold."""

    def writers(self) -> dict[int, list[Instruction]]:
        """Return the instructions that write a storage, by its identity."""
        found: dict[int, list[Instruction]] = {}
        for instruction in self.instructions:
            for tensor in written(self, instruction):
                found.setdefault(id(tensor.storage), []).append(instruction)
        return found

    def readers(self) -> dict[int, list[Instruction]]:
        """Return the instructions that read a storage, by its identity."""
        found: dict[int, list[Instruction]] = {}
        for instruction in self.instructions:
            for tensor in instruction.reads:
                found.setdefault(id(tensor.storage), []).append(instruction)
        return found


def is_in_place(instruction: Instruction) -> bool:
    """Whether an instruction changes rows of a state where they lie: it reads what it writes."""
    dst = instruction.dst
    is_change = instruction.op is Op.SCATTER and dst is not None and instruction.sources[0] is dst
    return is_change and dst is not None and dst.space is Space.STATE


def written(program: Program, instruction: Instruction) -> tuple[Tensor, ...]:
    """Return the tensors that an instruction writes."""
    if instruction.op is Op.CALL_HOST:
        return program.calls[instruction.whole("call")].outputs
    return (instruction.dst,) if instruction.dst is not None else ()
