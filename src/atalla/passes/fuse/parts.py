"""Parts: what follows a product that writes its storage in parts, or as a view of other dims, follows each part.

A transposed convolution is several products, a convolution of volumes one of images: the batch norm, the residual and
the activation behind them are made one for each, which the other rewrites then take in.
"""

from __future__ import annotations

from atalla import ir
from atalla.dims import equal, simplify, strides_of_pixels
from atalla.isa import Op, Space
from atalla.passes.fuse.products import AFFINE, PRODUCTS, RESIDUAL, as_activation
from atalla.passes.fuse.uses import Uses, is_same_view, lie_alike

WRITERS = PRODUCTS | {Op.COPY, Op.FILL}
"""Of parts: places of a transposed convolution that no tap reaches hold the bias alone."""


def into_parts(program: ir.Program) -> None:
    """An EW that alone reads what products write in parts becomes an EW for each part."""
    uses = Uses.of(program)
    for ew in [one for one in program.instructions if one.op is Op.EW]:
        place = _followed(ew, uses)
        if place is None:
            continue
        whole = ew.sources[place]
        assert whole is not None, "it was found"
        made = [_of_part(ew, place, writer) for writer in uses.writers[id(whole.storage)]]
        at = program.instructions.index(ew)
        program.instructions[at : at + 1] = made
        uses = Uses.of(program)


def _followed(ew: ir.Instruction, uses: Uses) -> int | None:
    """Return which source of an EW is written in parts that can be followed one by one; None where none is."""
    steps = tuple(ew.steps)
    if not (steps in {AFFINE, RESIDUAL} or (len(ew.sources) == 1 and as_activation(ew.steps) is not None)):
        return None
    for place in (0, 1) if steps == RESIDUAL else (0,):
        source = ew.sources[place]
        if source is not None and _is_in_parts(source, ew, uses) and _others_fit(ew, place, source, uses):
            return place
    return None


def _is_in_parts(source: ir.Tensor, ew: ir.Instruction, uses: Uses) -> bool:
    """Whether products, one of them at least, write all of a tensor that this EW alone reads."""
    root = source.storage
    writers = uses.writers.get(id(root), [])
    if root.space is not Space.ARENA or id(root) in uses.kept or uses.readers.get(id(root)) != [ew]:
        return False
    if not all(one.op in WRITERS for one in writers) or not any(one.op in PRODUCTS for one in writers):
        return False
    made = [one.dst for one in writers if one.dst is not None]
    if len(made) == 1 and is_same_view(made[0], source):
        return False
    return equal(sum(one.elements for one in made), source.elements) and all(
        len(one.shape) > 1 and equal(one.shape[1], source.shape[1]) and equal(one.strides[1], source.strides[1])
        for one in made
    )


def _others_fit(ew: ir.Instruction, place: int, source: ir.Tensor, uses: Uses) -> bool:
    """Whether all else lies in memory as the source does, or is one number a channel."""
    assert ew.dst is not None, "an EW writes"
    others = [one for i, one in enumerate(ew.sources) if i != place and one is not None]
    is_affine = tuple(ew.steps) == AFFINE
    return (
        len(source.shape) > 1
        and _lies_alike(source, ew.dst)
        and all(_by_channel(one) if is_affine else _lies_alike(source, one) for one in others)
        and not any(one.storage is source.storage for one in others)
        and len(uses.writers.get(id(ew.dst.storage), [])) == 1
    )


def _lies_alike(first: ir.Tensor, second: ir.Tensor) -> bool:
    return first.dtype is second.dtype and lie_alike(first, second)


def _by_channel(tensor: ir.Tensor) -> bool:
    return tensor.storage.space is Space.CONST and all(
        i == 1 or equal(stride, 0) or equal(n, 1)
        for i, (n, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True))
    )


def _of_part(ew: ir.Instruction, place: int, writer: ir.Instruction) -> ir.Instruction:
    """Return the EW of one part, which from now on has a storage of its own."""
    source, part = ew.sources[place], writer.dst
    assert source is not None and part is not None and ew.dst is not None, "they were looked at"
    own = ir.new_storage(part.name, part.dtype, part.shape, strides_of_pixels(part.shape))

    def moved(tensor: ir.Tensor | None) -> ir.Tensor:
        assert tensor is not None, "an EW's sources are all there"
        if tensor is source:
            return own
        if tuple(ew.steps) == AFFINE and tensor is not ew.dst:
            strides = [tensor.strides[1] if i == 1 else 0 for i in range(len(part.shape))]
            return tensor.view(part.shape, strides)
        return tensor.view(part.shape, part.strides, simplify(part.offset - source.offset))

    dst, sources = moved(ew.dst), tuple(moved(one) for one in ew.sources)
    writer.dst = own
    return ir.Instruction(ew.op, dst, sources, ew.attributes, ew.node, ew.line)
