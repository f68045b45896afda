"""State: what only replaces some rows of a state is written where the state lies."""

from __future__ import annotations

from atalla import ir
from atalla.dims import equal
from atalla.isa import Op, Space
from atalla.passes.fuse.uses import Uses


def into_state(program: ir.Program) -> None:
    """A SCATTER of a state whose result becomes the state changes it in place; neither it nor the state is copied.

    Nobody may read the old state after it: what is read of a state is read before any changes.
    """
    for copied in [one for one in program.instructions if one.op is Op.COPY]:
        state, (made,) = copied.dst, copied.reads
        if state is None or state.storage.space is not Space.STATE or not _is_same_whole(state, made):
            continue
        writer = _writer(program, made)
        if writer is None or _is_read_after(program, state.storage, writer):
            continue
        _move(program, made.storage, state.storage)
        writer.dst = writer.sources[0]
        program.instructions.remove(copied)


def _writer(program: ir.Program, made: ir.Tensor) -> ir.Instruction | None:
    """Return the SCATTER of a whole state that alone writes a storage of the arena; None where something else does."""
    writer = Uses.of(program).writer(made)
    if writer is None or writer.op is not Op.SCATTER or made.storage.space is not Space.ARENA:
        return None
    table, made_there = writer.sources[0], writer.dst
    assert table is not None and made_there is not None, "it has both"
    return writer if table.storage.space is Space.STATE and _is_same_whole(table, made_there) else None


def _is_same_whole(first: ir.Tensor, second: ir.Tensor) -> bool:
    """Whether two tensors are all elements of their storages, in the same order."""
    return first.dtype is second.dtype is first.storage.dtype is second.storage.dtype and all(
        one.is_contiguous and equal(one.offset, 0) and equal(one.elements, first.storage.elements)
        for one in (first, second, second.storage)
    )


def _is_read_after(program: ir.Program, state: ir.Tensor, writer: ir.Instruction) -> bool:
    """Whether a state is read behind its writer, or by it as anything but the table."""
    place = program.instructions.index(writer)
    after = [one for step in program.instructions[place + 1 :] for one in step.reads]
    return any(one.storage is state for one in (*after, *(one for one in writer.sources[1:] if one is not None)))


def _move(program: ir.Program, old: ir.Tensor, new: ir.Tensor) -> None:
    """Replace a storage by another one, in the same places, wherever it is read."""
    for step in program.instructions:
        step.sources = tuple(
            new.view(one.shape, one.strides, one.offset) if one is not None and one.storage is old else one
            for one in step.sources
        )
