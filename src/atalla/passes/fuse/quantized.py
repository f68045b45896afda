"""Quantised: products of what was dequantised become products of int8; what lies between two int8 tensors, tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from atalla import ir
from atalla.chains import made_by
from atalla.dims import Dim, equal
from atalla.errors import KernelError
from atalla.isa import Act, Dtype, Op, Pool, Step, float32_of
from atalla.isa.format import MOST_DEPTH, MOST_STEPS, MOST_TAPS
from atalla.passes.fuse.chains import chained
from atalla.passes.fuse.products import as_activation
from atalla.passes.fuse.uses import Uses, is_same_view, lie_alike
from atalla.passes.lowering import constant, constant_data

if TYPE_CHECKING:
    import torch

OF_INT8 = {Op.GEMM: Op.QGEMM, Op.CONV2D: Op.QCONV2D, Op.DWCONV2D: Op.QDWCONV2D}


@dataclass(frozen=True)
class Scaled:
    """A tensor of int8, and what one of it stands for."""

    tensor: ir.Tensor
    scale: float
    """Of what is quantised: its inverse."""
    zero: float


@dataclass(frozen=True)
class End:
    """What becomes of a product's sums."""

    dst: ir.Tensor
    bounds: tuple[float, float]
    quantized: Scaled | None
    """What it is stored as; None for floats."""


def into_integers(program: ir.Program) -> None:
    """Products of dequantised tensors by known whole numbers become products of int8, as do the largest of windows."""
    for one in list(program.instructions):
        if one.op is Op.EW:
            _into_reader(one, Uses.of(program))
        elif one.op in OF_INT8:
            _integer_product(program, one)
        elif one.op is Op.POOL2D and one.whole("kind") == Pool.MAX:
            _integer_pool(program, one)


def _into_reader(ew: ir.Instruction, uses: Uses) -> None:
    """What an EW reads dequantised it dequantises itself: another may read it, too, or read it repeated."""
    for place, tensor in enumerate(ew.sources):
        if tensor is None or tensor.dtype is not Dtype.F32 or ew.sources.count(tensor) != 1:
            continue
        given, writer = dequantized(tensor, uses), uses.writer(tensor)
        if given is None or writer is None or len(ew.steps) + len(writer.steps) > MOST_STEPS:
            continue
        part = ir.Instruction(Op.EW, tensor, (given.tensor,), writer.attributes)
        ew.sources, steps = chained(part, ew, place)
        ew.attributes = {"steps": tuple(steps)}
        _into_reader(ew, uses)
        return


def _integer_product(program: ir.Program, product: ir.Instruction) -> None:
    import torch

    uses = Uses.of(program)
    src, weight, bias = (*product.sources, None)[:3]
    found = None if weight is None else _grid_of(weight)
    if src is None or weight is None or found is None or len(product.sources) > 3 or product.attributes.get("act"):
        return
    numbers, steps = found
    if math.prod(numbers.shape[1:]) > (MOST_TAPS if product.op is Op.DWCONV2D else MOST_DEPTH):
        return
    given = dequantized(src, uses) or dequantized_copy(program, src, uses)
    if given is None:
        return
    added = torch.zeros(1) if bias is None else constant_data(bias)
    assert added is not None, "a bias is a constant"
    x = given.tensor
    if product.op is not Op.GEMM and not equal(x.strides[1], 1) and not equal(x.shape[1], 1):  # few channels
        _, channels, high, wide = x.shape
        x = _laid_out(program, x, (channels * high * wide, 1, wide * channels, channels), product, uses)
    end = _end_of(program, product, uses)
    scale, offset = steps.double() * given.scale, added.double().expand(len(numbers))
    low, high = end.bounds
    if end.quantized is not None:
        to = end.quantized
        scale, offset = scale * to.scale, offset * to.scale + to.zero
        low, high = (_quantized(bound, to) for bound in end.bounds)
    sums = numbers.flatten(1).sum(1, dtype=torch.int32)
    parts = {"sums": sums, "scale": scale.float(), "offset": offset.float()}
    constants = [constant(data.contiguous(), f"{product.node}.{name}") for name, data in parts.items()]
    product.op = OF_INT8[product.op]
    product.sources = (x, constant(numbers, weight.name), *constants)
    product.attributes = {**product.attributes, "zero": int(given.zero), "low": low, "high": high}
    product.dst = end.dst


def _quantized(bound: float, to: Scaled) -> float:
    """Return a bound as the whole number that QUANTIZE makes of it."""
    if math.isinf(bound):
        return math.copysign(128, bound) - (bound > 0)
    import torch

    found = (torch.tensor(bound, dtype=torch.float32) * torch.tensor(to.scale, dtype=torch.float32)).round() + to.zero
    return float(found.clamp(-128, 127))


def dequantized(tensor: ir.Tensor, uses: Uses) -> Scaled | None:
    """Return the int8 tensor whose floats a tensor holds, as a view of the same form."""
    writer = uses.writer(tensor)
    if writer is None or writer.op is not Op.EW or writer.dst is None or len(writer.sources) != 1:
        return None
    source, found = writer.sources[0], _scale_of(writer, Step.DEQUANTIZE)
    if source is None or source.dtype is not Dtype.I8 or found is None or not lie_alike(writer.dst, source):
        return None
    scale, zero = found
    if not -128 <= zero <= 127:
        return None
    return Scaled(source.view(tensor.shape, tensor.strides, tensor.offset - writer.dst.offset), scale, zero)


def _scale_of(ew: ir.Instruction, code: Step) -> tuple[float, float] | None:
    """Return the scale and the zero point of an EW that does nothing but QUANTIZE or DEQUANTIZE its source."""
    if [Step(step[0]) for step in ew.steps] != [Step.FLOAT, Step.FLOAT, code] or ew.steps[2][1:] != (0, 1, 2):
        return None
    return float32_of(ew.steps[0][1]), float32_of(ew.steps[1][1])


def dequantized_copy(program: ir.Program, tensor: ir.Tensor, uses: Uses) -> Scaled | None:
    """Return the int8 tensor, laid out as a copy of its floats is: whatever made it writes it so, or it is copied."""
    writer = uses.writer(tensor)
    if writer is None or writer.op is not Op.COPY or writer.dst is None or writer.sources[0] is None:
        return None
    given = dequantized(writer.sources[0], uses)
    if given is None or writer.dst.dtype is not Dtype.F32:
        return None
    x = _laid_out(program, given.tensor, writer.dst.strides, writer, uses)
    return Scaled(x.view(tensor.shape, tensor.strides, tensor.offset - writer.dst.offset), given.scale, given.zero)


def _laid_out(
    program: ir.Program, x: ir.Tensor, strides: Sequence[Dim], before: ir.Instruction, uses: Uses
) -> ir.Tensor:
    """Return an int8 tensor with other strides: what quantises it writes it so, too; else it is copied."""
    made = ir.new_storage(x.name, Dtype.I8, x.shape, strides)
    maker = next(iter(uses.writers.get(id(x.storage), [])), None)
    if maker is not None and maker.op is Op.EW and maker.dst is not None and is_same_view(maker.dst, x):
        again = ir.Instruction(Op.EW, made, maker.sources, maker.attributes, maker.node, maker.line)
        program.instructions.insert(program.instructions.index(maker) + 1, again)
    else:
        copied = ir.Instruction(Op.COPY, made, (x,), {}, before.node, before.line)
        program.instructions.insert(program.instructions.index(before), copied)
    return made


def _grid_of(weight: ir.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return a weight's whole numbers, and what one of each row stands for, where the rows have one step each."""
    grid, root = weight.storage.grid, weight.storage
    if grid is None or not all(isinstance(extent, int) for extent in weight.shape):
        return None
    numbers = grid.numbers.as_strided(weight.shape, weight.strides, int(weight.offset))
    rows = len(numbers)
    if len(grid.steps) == 1:
        return numbers, grid.steps.expand(rows)
    is_axis = equal(weight.strides[0], root.strides[grid.axis]) and rows == len(grid.steps) and equal(weight.offset, 0)
    return (numbers, grid.steps) if is_axis else None


def _end_of(program: ir.Program, product: ir.Instruction, uses: Uses) -> End:
    """Return what follows a product and can be a part of it: two bounds, and what quantises; that goes away."""
    assert product.dst is not None, "a product writes"
    end = End(product.dst, (-math.inf, math.inf), None)
    while end.quantized is None:
        follower = _sole_reader(end.dst, uses)
        if follower is None or follower.dst is None or not lie_alike(end.dst, follower.dst):
            break
        quantized, bounds = _quantizes(follower), end.bounds
        if quantized is None:
            act = as_activation(follower.steps)
            if act is None or act[0] not in {Act.RELU, Act.CLAMP} or follower.dst.dtype is not Dtype.F32:
                break
            least, most = (0.0, math.inf) if act[0] is Act.RELU else act[1:]
            if math.isnan(least) or math.isnan(most) or least > most:
                break
            low, high = (min(max(bound, least), most) for bound in bounds)
            bounds = (low, high)
        end = End(follower.dst, bounds, quantized)
        program.instructions.remove(follower)
    return end


def _sole_reader(tensor: ir.Tensor, uses: Uses) -> ir.Instruction | None:
    """Return the one EW that reads a tensor, whole and alone."""
    reader, *others = uses.readers.get(id(tensor.storage), [None])
    if reader is None or others or uses.only(tensor, reader) is None:
        return None
    source = reader.sources[0] if reader.op is Op.EW and len(reader.sources) == 1 else None
    return reader if source is not None and is_same_view(source, tensor) else None


def _quantizes(ew: ir.Instruction) -> Scaled | None:
    found = _scale_of(ew, Step.QUANTIZE)
    if found is None or ew.dst is None or ew.dst.dtype is not Dtype.I8:
        return None
    return Scaled(ew.dst, *found)


def _integer_pool(program: ir.Program, pool: ir.Instruction) -> None:
    """The largest float stands for the largest whole number, where both ends give each number itself again."""
    import torch

    uses = Uses.of(program)
    src, dst = pool.sources[0], pool.dst
    assert src is not None and dst is not None, "a pool reads and writes"
    given, follower = dequantized(src, uses) or dequantized_copy(program, src, uses), _sole_reader(dst, uses)
    to = None if follower is None else _quantizes(follower)
    if given is None or follower is None or to is None or not lie_alike(dst, to.tensor):
        return
    every = torch.arange(-128.0, 128.0)
    if not torch.equal(((every - given.zero) * given.scale * to.scale).round() + to.zero, every):
        return
    pool.sources, pool.dst = (given.tensor,), to.tensor
    program.instructions.remove(follower)


def into_tables(program: ir.Program) -> None:
    """An EW of one int8 tensor that makes another is a table of 256 bytes, or nothing."""
    import torch

    every = torch.arange(256).to(torch.uint8).view(torch.int8)  # by the bytes that stand for them
    for place, ew in enumerate(program.instructions):
        source, dst = ew.sources[0] if ew.op is Op.EW and len(ew.sources) == 1 else None, ew.dst
        if source is None or dst is None or not source.dtype is dst.dtype is Dtype.I8:
            continue
        order = dst.order
        if order is None or source.order != order:
            continue
        try:
            table = made_by(ew.steps, [every]).to(torch.int8)
        except KernelError:  # some byte is divided by zero; whether it ever comes, the run will see
            continue
        if torch.equal(table, every):
            program.instructions[place] = ir.Instruction(Op.COPY, dst, (source,), {}, ew.node, ew.line)
            continue
        shape = [dst.shape[i] for i in order]
        index, made = (
            replace(one.view(shape, [one.strides[i] for i in order]), dtype=dtype)
            for one, dtype in ((source, Dtype.U8), (dst, Dtype.I8))
        )
        program.instructions[place] = ir.Instruction(
            Op.GATHER, made, (constant(table, f"{ew.node}.table"), index), {}, ew.node, ew.line
        )
