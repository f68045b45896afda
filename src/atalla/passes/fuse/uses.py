"""Uses: who writes and reads what, and what all rewrites share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from atalla import ir
from atalla.dims import equal
from atalla.isa import Op, Space


@dataclass
class Uses:
    """Who writes and reads each storage."""

    writers: dict[int, list[ir.Instruction]]
    readers: dict[int, list[ir.Instruction]]
    kept: set[int]
    """Storages that somebody outside of the program sees."""

    @classmethod
    def of(cls, program: ir.Program) -> Uses:
        """Look at a program."""
        kept = {id(one) for one in program.outputs if isinstance(one, ir.Tensor)}
        return cls(program.writers(), program.readers(), kept)

    def sole(self, tensor: ir.Tensor, reader: ir.Instruction) -> ir.Instruction | None:
        """Return the one instruction that writes a tensor, if the reader alone reads it, and all of it, once."""
        writer = self.only(tensor, reader)
        return writer if writer is not None and writer.dst is not None and is_same_view(writer.dst, tensor) else None

    def only(self, tensor: ir.Tensor, reader: ir.Instruction) -> ir.Instruction | None:
        """Return the one instruction that writes a tensor's storage, if the reader alone reads it, once."""
        root = tensor.storage
        if self.readers.get(id(root)) != [reader] or id(root) in self.kept or root.space is not Space.ARENA:
            return None
        return self.writer(tensor)

    def writer(self, tensor: ir.Tensor) -> ir.Instruction | None:
        """Return the one instruction that writes a tensor's storage; None where none does, or several do."""
        writers = self.writers.get(id(tensor.storage), [])
        return writers[0] if len(writers) == 1 else None


def is_same_view(first: ir.Tensor, second: ir.Tensor) -> bool:
    """Whether two tensors are the same view of the same storage."""
    return (
        first.storage is second.storage
        and first.dtype is second.dtype
        and len(first.shape) == len(second.shape)
        and equal(first.offset, second.offset)
        and all(map(equal, first.shape, second.shape))
        and lie_alike(first, second)
    )


def lie_alike(first: ir.Tensor, second: ir.Tensor) -> bool:
    """Whether elements of two tensors of one shape lie at the same places of their storages."""
    return all(
        equal(a, b) or equal(extent, 1) for a, b, extent in zip(first.strides, second.strides, first.shape, strict=True)
    )


def without_dead(program: ir.Program) -> None:
    """Drop instructions that write what nobody reads, and their calls; a call that writes nothing has an effect."""
    kept = {id(one) for one in program.outputs if isinstance(one, ir.Tensor)}
    alive: list[ir.Instruction] = []
    for instruction in reversed(program.instructions):
        made = ir.written(program, instruction)
        if not made or any(id(one.storage) in kept or one.storage.space is Space.STATE for one in made):
            kept.update(id(one.storage) for one in instruction.reads)
            alive.append(instruction)
    program.instructions = alive[::-1]
    calls = [one for one in program.instructions if one.op is Op.CALL_HOST]
    program.calls = [program.calls[one.whole("call")] for one in calls]
    for number, one in enumerate(calls):
        one.attributes = {**one.attributes, "call": number}


def each_ew(program: ir.Program, rewrite: Callable[[ir.Instruction, Uses], ir.Instruction | None]) -> None:
    """Offer every EW to a rewrite, which returns the instruction that takes its place, or None."""
    uses, place = Uses.of(program), 0
    while place < len(program.instructions):
        ew = program.instructions[place]
        producer = rewrite(ew, uses) if ew.op is Op.EW else None
        if producer is None:
            place += 1
            continue
        producer.dst = ew.dst
        program.instructions[place] = producer
        before = program.instructions.index(producer)
        assert before < place, "what is read was written before"
        del program.instructions[before]
        uses = Uses.of(program)
        if producer.op is Op.EW:  # the same instruction again: it may take in one more
            place -= 1


def same_rows(first: ir.Tensor, second: ir.Tensor) -> bool:
    """Whether two tensors have the innermost elements of one at the innermost of the other."""
    return all(
        equal(a, 1) == equal(b, 1) or equal(extent, 1)
        for a, b, extent in zip(first.strides, second.strides, first.shape, strict=True)
    )
