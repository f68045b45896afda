"""Chains: element-wise neighbours become one instruction."""

from __future__ import annotations

from collections.abc import Callable

from atalla import ir
from atalla.isa import STEPS, Dtype, Op, Step
from atalla.isa.format import MOST_SOURCES, MOST_STEPS
from atalla.passes.fuse.uses import Uses, each_ew, is_same_view


def into_chains(program: ir.Program) -> None:
    """An EW that only another EW reads becomes the beginning of that one."""
    each_ew(program, _joined)


def _joined(ew: ir.Instruction, uses: Uses) -> ir.Instruction | None:
    for place, tensor in enumerate(ew.sources):
        if tensor is None or tensor.dtype not in {Dtype.F32, Dtype.I64, Dtype.BOOL}:
            continue
        producer = uses.sole(tensor, ew)
        if producer is None or producer.op is not Op.EW or ew.sources.count(tensor) != 1:
            continue
        if len(ew.sources) + len(producer.sources) - 1 > MOST_SOURCES:
            continue
        if len(producer.steps) + len(ew.steps) + 2 > MOST_STEPS:
            continue
        producer.sources, steps = chained(producer, ew, place, is_bool=tensor.dtype is Dtype.BOOL)
        producer.attributes = {"steps": tuple(steps)}
        producer.node, producer.line = ew.node, ew.line
        return producer
    return None


def chained(
    producer: ir.Instruction, ew: ir.Instruction, place: int, *, is_bool: bool = False
) -> tuple[tuple[ir.Tensor | None, ...], ir.Steps]:
    """Return the sources and steps of two chains behind each other: one makes the other's source of that number."""
    first, second = producer.steps, ew.steps
    rest = [one for i, one in enumerate(ew.sources) if i != place]
    sources = [*producer.sources]
    numbers = []
    for one in rest:
        same = next(
            (i for i, had in enumerate(sources) if had is not None and one is not None and is_same_view(had, one)), None
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
    """Return a step whose operands have other numbers; constants have none."""
    code, *operands = step
    count = len(STEPS[Step(code)].operands)
    if not count:
        return step
    a, b, c = (to(value) if i < count else 0 for i, value in enumerate(operands))
    return code, a, b, c
