"""Attention: two products and the softmax between them become one instruction."""

from __future__ import annotations

from atalla import ir
from atalla.dims import equal
from atalla.isa import Dtype, Op, Step, float32_of
from atalla.passes.fuse.uses import Uses


def into_attention(program: ir.Program) -> None:
    """Scores, a factor, a mask, a softmax and the sum of values become one instruction."""
    uses, place = Uses.of(program), 0
    while place < len(program.instructions):
        parts = _attention(program.instructions[place], uses)
        if parts is not None:
            attention, gone = parts
            program.instructions[place] = attention
            program.instructions = [one for one in program.instructions if one not in gone]
            uses, place = Uses.of(program), place - len(gone)
        place += 1


def _attention(values: ir.Instruction, uses: Uses) -> tuple[ir.Instruction, list[ir.Instruction]] | None:
    """Return the instruction for a chain that ends with this one, and those that it makes superfluous."""
    if values.op is not Op.BMM or values.dst is None or len(values.dst.shape) not in {3, 4}:
        return None
    shares, v = values.reads
    softmax = uses.sole(shares, values)
    if softmax is None or softmax.op is not Op.SOFTMAX or softmax.whole("log"):
        return None
    if softmax.whole("axis") != len(shares.shape) - 1 or values.number("scale") != 1:
        return None
    gone, scores, scale, mask = [softmax], softmax.reads[0], 1.0, None
    between = uses.sole(scores, softmax)
    if between is not None and between.op is Op.EW:
        found = _scaled_scores(between)
        if found is None:
            return None
        gone.append(between)
        at, scale, mask = found
        scores, reader = between.reads[at], between
        between = uses.sole(scores, reader)
    if between is None or between.op is not Op.BMM:
        return None
    q, k = between.reads
    if not equal(q.strides[-1], 1) or not equal(values.dst.strides[-1], 1):
        return None
    k = k.view((*k.shape[:-2], k.shape[-1], k.shape[-2]), (*k.strides[:-2], k.strides[-1], k.strides[-2]))
    sources = [q, k, v] if mask is None else [q, k, v, mask]
    attributes = {"causal": 0, "scale": scale * between.number("scale")}
    *batched, dst = (
        one if len(one.shape) == 4 else one.view((1, *one.shape), (0, *one.strides)) for one in (*sources, values.dst)
    )
    return ir.Instruction(Op.ATTENTION, dst, tuple(batched), attributes, values.node, values.line), [*gone, between]


def _scaled_scores(ew: ir.Instruction) -> tuple[int, float, ir.Tensor | None] | None:
    """Return which source of an EW holds the scores, their factor, and the mask that is added; None if it does more."""
    steps, sources = ew.steps, ew.reads
    if len(sources) > 2 or any(one.dtype is not Dtype.F32 for one in sources):
        return None
    scale, value, rest = 1.0, 0, steps
    codes = [step[0] for step in steps]
    if codes[:2] in ([Step.FLOAT, Step.MUL], [Step.FLOAT, Step.DIV]):
        factor = float32_of(steps[0][1])
        a, b = steps[1][1:3]
        made = len(sources)
        if b != made or a >= made or factor == 0:
            return None
        value, scale, rest = a, factor if codes[1] == Step.MUL else 1 / factor, steps[2:]
        result = made + 1
    else:
        result = value
    if not rest:
        return (value, scale, None) if len(sources) == 1 else None
    if len(rest) != 1 or rest[0][0] != Step.ADD or len(sources) != 2:
        return None
    pair = set(rest[0][1:3])
    if len(steps) == 1:  # nothing but a mask: the scores are the source that is not repeated
        value = next((i for i in (0, 1) if sources[i].is_contiguous), 0)
        result = value
    if pair != {result, 1 - value}:
        return None
    return value, scale, sources[1 - value]
