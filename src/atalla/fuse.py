"""Fuse: neighbours become one instruction, so that what lies between them never lies in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from atalla import ir
from atalla.dims import equal
from atalla.isa import Act, Dtype, Op, Space, Step
from atalla.lower import constant, known
from atalla.overlap import overlap

if TYPE_CHECKING:
    import torch

PRODUCTS = frozenset({Op.GEMM, Op.CONV2D, Op.DWCONV2D})
"""Operations with weights, which take a residual and an activation."""
ACTS = {
    Step.RELU: Act.RELU, Step.HARDSWISH: Act.HARDSWISH, Step.HARDSIGMOID: Act.HARDSIGMOID, Step.SIGMOID: Act.SIGMOID,
    Step.SILU: Act.SILU, Step.GELU: Act.GELU, Step.GELU_TANH: Act.GELU_TANH, Step.TANH: Act.TANH,
}  # fmt: skip
MOST_SOURCES = 8
MOST_STEPS = 32
Steps = list[tuple[int, int, int, int]]


def fuse(program: ir.Program) -> None:
    """Change a program in place: affine maps, activations and residuals, chains, copies, what nobody reads."""
    for rewrite in (into_weights, into_products, into_chains, into_attention, into_place):
        rewrite(program)
        without_dead(program)


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
        """Give the one instruction that writes a tensor, if the reader alone reads it, and all of it, once."""
        writer = self.only(tensor, reader)
        return writer if writer is not None and writer.dst is not None and alike(writer.dst, tensor) else None

    def only(self, tensor: ir.Tensor, reader: ir.Instruction) -> ir.Instruction | None:
        """Give the one instruction that writes a tensor's storage, if the reader alone reads it, once."""
        root = tensor.storage
        writers, readers = self.writers.get(id(root), []), self.readers.get(id(root), [])
        if len(writers) != 1 or readers != [reader] or id(root) in self.kept or root.space is not Space.ARENA:
            return None
        return writers[0]


def alike(first: ir.Tensor, second: ir.Tensor) -> bool:
    """Say whether two tensors are the same view of the same storage."""
    return (
        first.storage is second.storage
        and first.dtype is second.dtype
        and len(first.shape) == len(second.shape)
        and equal(first.offset, second.offset)
        and all(map(equal, first.shape, second.shape))
        and all(
            equal(a, b) or equal(extent, 1)
            for a, b, extent in zip(first.strides, second.strides, first.shape, strict=True)
        )
    )


def steps_of(instruction: ir.Instruction) -> Steps:
    """Give the steps of an EW as ``code, a, b, c``."""
    flat = instruction.attributes["steps"]
    assert isinstance(flat, Sequence), "a chain has a list of steps"
    return [(flat[i], flat[i + 1], flat[i + 2], flat[i + 3]) for i in range(0, len(flat), 4)]


def into_weights(program: ir.Program) -> None:
    """A factor and a summand for each channel (a batch norm) become part of the weights before it."""
    _each_ew(program, _scaled_weights)


def _scaled_weights(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    if steps_of(ew) != [(Step.MUL, 0, 1, 0), (Step.ADD, 3, 2, 0)] or ew.sources[0] is None:
        return None
    producer = uses.sole(ew.sources[0], ew)
    if producer is None or producer.op not in PRODUCTS or producer.attributes.get("act") or len(producer.reads) > 3:
        return None
    if len(producer.sources) > 3 and producer.sources[3] is not None:
        return None
    axis = len(ew.sources[0].shape) - 1 if producer.op is Op.GEMM else 1
    factor, summand = (_by_channel(one, axis) for one in ew.sources[1:3])
    weight, bias = producer.sources[1], producer.sources[2]
    if factor is None or summand is None or weight is None:
        return None
    filters, added = known(weight), 0.0 if bias is None else known(bias)
    assert filters is not None and added is not None, "weights are constants"
    scaled = filters.double() * factor.double().reshape(-1, *([1] * (filters.dim() - 1)))
    moved = added * factor.double() + summand.double()
    producer.sources = (
        producer.sources[0],
        constant(scaled.float(), f"{weight.name}.scaled"),
        constant(moved.float(), f"{ew.node}.bias"),
    )
    return producer


def _by_channel(tensor: ir.Tensor | None, axis: int) -> torch.Tensor | None:
    """Give a constant's elements along an axis where it is the same along all others."""
    if tensor is None or any(
        not equal(stride, 0) for i, stride in enumerate(tensor.strides) if i != axis and not equal(tensor.shape[i], 1)
    ):
        return None
    data = known(tensor.view([n if i == axis else 1 for i, n in enumerate(tensor.shape)], tensor.strides))
    return None if data is None else data.flatten()


def into_products(program: ir.Program) -> None:
    """A residual and an activation are applied where the product is, before it is stored."""
    for rewrite in (_residual, _activation):
        _each_ew(program, rewrite)


def _residual(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    if steps_of(ew) != [(Step.ADD, 0, 1, 0)] or any(one is None or one.dtype is not Dtype.F32 for one in ew.sources):
        return None
    for mine, other in ((0, 1), (1, 0)):
        tensor, residual = ew.sources[mine], ew.sources[other]
        assert tensor is not None and residual is not None, "looked at above"
        producer = uses.sole(tensor, ew)
        if producer is None or producer.op not in PRODUCTS or producer.attributes.get("act"):
            continue
        if len(producer.sources) > 3 or tensor.storage is residual.storage or ew.dst is None:
            continue
        if not _same_rows(tensor, residual) or not _same_rows(tensor, ew.dst):
            continue
        producer.sources = (*producer.sources, *([None] * (3 - len(producer.sources))), residual)
        return producer
    return None


def _same_rows(first: ir.Tensor, second: ir.Tensor) -> bool:
    """Say whether two tensors have the innermost elements of one at the innermost of the other."""
    return all(
        equal(a, 1) == equal(b, 1) or equal(extent, 1)
        for a, b, extent in zip(first.strides, second.strides, first.shape, strict=True)
    )


def _activation(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    if len(ew.sources) != 1 or ew.sources[0] is None or ew.dst is None or ew.dst.dtype is not Dtype.F32:
        return None
    found = _act(steps_of(ew))
    producer = uses.sole(ew.sources[0], ew)
    if found is None or producer is None or producer.op not in PRODUCTS or producer.attributes.get("act"):
        return None
    if not _same_rows(ew.sources[0], ew.dst):
        return None
    act, low, high = found
    producer.attributes = {**producer.attributes, "act": int(act), "low": low, "high": high}
    return producer


def _act(steps: Steps) -> tuple[Act, float, float] | None:
    """Give the activation that a chain of one source is."""
    if len(steps) == 1:
        act = ACTS.get(Step(steps[0][0]))
        return None if act is None else (act, 0.0, 0.0)
    codes = [Step(step[0]) for step in steps]
    if codes == [Step.FLOAT, Step.MAX, Step.FLOAT, Step.MIN] and steps[1][1:3] == (0, 1) and steps[3][1:3] == (2, 3):
        return Act.CLAMP, number_of(steps[0][1]), number_of(steps[2][1])
    return None


def number_of(bits: int) -> float:
    """Give the float32 of these bits."""
    import struct

    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def into_chains(program: ir.Program) -> None:
    """An EW that only another EW reads becomes the beginning of that one."""
    _each_ew(program, _joined)


def _joined(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    for place, tensor in enumerate(ew.sources):
        if tensor is None or tensor.dtype not in {Dtype.F32, Dtype.I64, Dtype.BOOL}:
            continue
        producer = uses.sole(tensor, ew)
        if producer is None or producer.op is not Op.EW or ew.sources.count(tensor) != 1:
            continue
        if len(ew.sources) + len(producer.sources) - 1 > MOST_SOURCES:
            continue
        first, second = steps_of(producer), steps_of(ew)
        if len(first) + len(second) + 2 > MOST_STEPS:
            continue
        producer.sources, steps = _chained(producer, ew, place, first, second, is_bool=tensor.dtype is Dtype.BOOL)
        producer.attributes = {"steps": tuple(number for step in steps for number in step)}
        producer.node, producer.line = ew.node, ew.line
        return producer
    return None


def _chained(
    producer: ir.Instruction, ew: ir.Instruction, place: int, first: Steps, second: Steps, *, is_bool: bool
) -> tuple[tuple[ir.Tensor | None, ...], Steps]:
    """Give the sources and steps of two chains behind each other."""
    rest = [one for i, one in enumerate(ew.sources) if i != place]
    sources = [*producer.sources]
    numbers = []
    for one in rest:
        same = next(
            (i for i, had in enumerate(sources) if had is not None and one is not None and alike(had, one)), None
        )
        if same is None:
            sources.append(one)
            same = len(sources) - 1
        numbers.append(same)
    before, shift = len(producer.sources), len(sources) - len(producer.sources)
    steps = [_moved(step, lambda n: n if n < before else n + shift) for step in first]
    if is_bool:  # what is read of a bool is 0 or 1
        steps.append((Step.INT, 0, 0, 0))
        steps.append((Step.NE, len(sources) + len(steps) - 2, len(sources) + len(steps) - 1, 0))
    middle = len(sources) + len(steps) - 1
    table = [*numbers[:place], middle, *numbers[place:]]
    table += [middle + 1 + i for i in range(len(second))]
    return tuple(sources), steps + [_moved(step, table.__getitem__) for step in second]


def _moved(step: tuple[int, int, int, int], to: Callable[[int], int]) -> tuple[int, int, int, int]:
    """Give a step whose operands have other numbers; constants have none."""
    code, *operands = step
    if code in {Step.FLOAT, Step.INT}:
        return step
    count = 3 if code == Step.WHERE else 2 if code in _BINARY else 1
    a, b, c = (to(value) if i < count else 0 for i, value in enumerate(operands))
    return code, a, b, c


_BINARY = frozenset({
    Step.ADD, Step.SUB, Step.MUL, Step.DIV, Step.MIN, Step.MAX, Step.POW, Step.FLOOR_DIV, Step.REMAINDER,
    Step.EQ, Step.NE, Step.LT, Step.LE, Step.GT, Step.GE, Step.AND, Step.OR, Step.XOR,
})  # fmt: skip


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
    """Give the instruction for a chain that ends with this one, and those that it makes superfluous."""
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
    batched = [one if len(one.shape) == 4 else one.view((1, *one.shape), (0, *one.strides)) for one in sources]
    dst = (
        values.dst if len(values.dst.shape) == 4 else values.dst.view((1, *values.dst.shape), (0, *values.dst.strides))
    )
    return ir.Instruction(Op.ATTENTION, dst, tuple(batched), attributes, values.node, values.line), [*gone, between]


def _scaled_scores(ew: ir.Instruction) -> tuple[int, float, ir.Tensor | None] | None:
    """Give which source of an EW holds the scores, their factor, and the mask that is added; None if it does more."""
    steps, sources = steps_of(ew), ew.reads
    if len(sources) > 2 or any(one.dtype is not Dtype.F32 for one in sources):
        return None
    scale, value, rest = 1.0, 0, steps
    codes = [step[0] for step in steps]
    if codes[:2] in ([Step.FLOAT, Step.MUL], [Step.FLOAT, Step.DIV]) and len(sources) <= 2:
        factor = number_of(steps[0][1])
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
        if order is None or writer.op in {Op.CALL_HOST, Op.GATHER}:
            continue
        place = copied.dst.view([copied.dst.shape[i] for i in order], [copied.dst.strides[i] for i in order])
        if not (writer.op is Op.EW or _same_rows(writer.dst, place)) or _is_used_before(program, copied, writer):
            continue
        writer.dst = place if copied.dst.root is not None or order != sorted(order) else copied.dst
        program.instructions.remove(copied)
        uses = Uses.of(program)


def _is_used_before(program: ir.Program, copied: ir.Instruction, writer: ir.Instruction) -> bool:
    """Say whether something between a writer and a copy of it touches what the copy writes."""
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


def without_dead(program: ir.Program) -> None:
    """Drop instructions that write what nobody reads; a call that writes nothing is made for its effect."""
    kept = {id(one) for one in program.outputs if isinstance(one, ir.Tensor)}
    alive: list[ir.Instruction] = []
    for instruction in reversed(program.instructions):
        made = ir.written(program, instruction)
        if not made or any(id(one.storage) in kept or one.storage.space is Space.STATE for one in made):
            kept.update(id(one.storage) for one in instruction.reads)
            alive.append(instruction)
    program.instructions = alive[::-1]


def _each_ew(program: ir.Program, rewrite: Callable[[ir.Instruction, Uses], ir.Instruction | None]) -> None:
    """Offer every EW to a rewrite, which gives the instruction that takes its place, or None."""
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
        place -= 1  # the same instruction again: it may take in one more
        if producer.op is not Op.EW:
            place += 1
