"""Sums: of what was dequantised sums and means become sums of whole numbers, which are exact in any order."""

from __future__ import annotations

import math

from atalla import ir
from atalla.isa import Dtype, Op, Reduce, Step, bits_of_float32
from atalla.isa.format import MOST_DEPTH
from atalla.passes.fuse.quantized import dequantized, dequantized_copy
from atalla.passes.fuse.uses import Uses


def into_sums(program: ir.Program) -> None:
    """A sum or mean of dequantised elements sums int8; what it stands for is worked out of the whole sum."""
    for one in list(program.instructions):
        if one.op is Op.REDUCE and one.whole("kind") in {Reduce.SUM, Reduce.MEAN}:
            _integer_sum(program, one)


def _integer_sum(program: ir.Program, reduce: ir.Instruction) -> None:
    uses = Uses.of(program)
    src, dst = reduce.sources[0], reduce.dst
    assert src is not None and dst is not None, "it reads and writes"
    gone = [extent for i, extent in enumerate(src.shape) if reduce.whole("dims") >> i & 1]
    count = math.prod(extent for extent in gone if isinstance(extent, int))
    if not all(isinstance(extent, int) for extent in gone) or not 1 <= count <= MOST_DEPTH:
        return  # of more, a float32 does not hold the sum
    given = dequantized(src, uses) or dequantized_copy(program, src, uses)
    if given is None:
        return
    sums = ir.new_storage(f"{dst.name}.sums", Dtype.I64, dst.shape, dst.strides)
    scale = given.scale / count if reduce.whole("kind") == Reduce.MEAN else given.scale
    constants = [(Step.FLOAT, bits_of_float32(number), 0, 0) for number in (scale, given.zero * count)]
    attributes = {"steps": (*constants, (Step.DEQUANTIZE, 0, 1, 2))}
    floats = ir.Instruction(Op.EW, dst, (sums,), attributes, reduce.node, reduce.line)
    program.instructions.insert(program.instructions.index(reduce) + 1, floats)
    reduce.sources, reduce.dst = (given.tensor,), sums
    reduce.attributes = {**reduce.attributes, "kind": Reduce.SUM}
