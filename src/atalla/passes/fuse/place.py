"""Place: what is only copied is written where the copy would be."""

from __future__ import annotations

from atalla import ir
from atalla.dims import equal
from atalla.isa import Op, Space
from atalla.passes.fuse.uses import Uses, same_rows
from atalla.passes.overlap import overlap


def into_place(program: ir.Program) -> None:
    """What is only copied, with its dims in another order or not, is computed where it is copied to."""
    uses = Uses.of(program)
    for copied in [one for one in program.instructions if one.op is Op.COPY]:
        (source,) = copied.reads
        writer = uses.only(source, copied)
        if writer is None or writer.dst is None or copied.dst is None or copied.dst.dtype is not source.dtype:
            continue
        if copied.dst.storage.space is Space.STATE:  # it is still read between the two
            continue
        order = permutation(writer.dst, source)
        if order is None or writer.op in {Op.CALL_HOST, Op.GATHER, Op.SCATTER}:
            continue
        place = copied.dst.view([copied.dst.shape[i] for i in order], [copied.dst.strides[i] for i in order])
        if not (writer.op is Op.EW or same_rows(writer.dst, place)) or _is_used_before(program, copied, writer):
            continue
        writer.dst = place if copied.dst.root is not None or order != sorted(order) else copied.dst
        program.instructions.remove(copied)
        uses = Uses.of(program)


def _is_used_before(program: ir.Program, copied: ir.Instruction, writer: ir.Instruction) -> bool:
    """Whether something between a writer and a copy of it touches what the copy writes."""
    assert copied.dst is not None, "a copy writes"
    place = copied.dst
    between = program.instructions[program.instructions.index(writer) + 1 : program.instructions.index(copied)]
    touched = (one for step in between for one in (*ir.written(program, step), *step.reads))
    return any(overlap(place, one) for one in touched)


def permutation(whole: ir.Tensor, view: ir.Tensor) -> list[int] | None:
    """Give, for each dim of a tensor, the dim of a view of it that it became; None if the view is anything else."""
    if whole.storage is not view.storage or whole.dtype is not view.dtype or len(whole.shape) != len(view.shape):
        return None
    if not equal(whole.offset, view.offset):
        return None
    left, order = list(range(len(view.shape))), []
    for extent, stride in zip(whole.shape, whole.strides, strict=True):
        fits = [
            i for i in left if equal(view.shape[i], extent) and (equal(extent, 1) or equal(view.strides[i], stride))
        ]
        if not fits:
            return None
        order.append(fits[0])
        left.remove(fits[0])
    return order
