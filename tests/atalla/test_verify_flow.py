"""Verify, over time: storages that are alive at once share no byte, whoever looks; calls of the host are made once."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pytest
import torch

from atalla import ir
from atalla.blob.arena import Arena, plan_arena, storage_bytes
from atalla.blob.writer import encode
from atalla.isa import Dtype, Op, Space, Verdict
from atalla.isa.format import CALL
from tests.atalla.test_compile import compiled
from tests.atalla.test_verify import c, python, sections, signed

LINE = 64


def lives(count: int, steps: int, rng: random.Random) -> tuple[ir.Program, list[tuple[ir.Tensor, int, int]]]:
    """Give a program that fills storages and reads each for the last time some steps later."""
    made = ir.Tensor("made", Dtype.F32, (1,), (1,), Space.OUTPUT)
    program = ir.Program(outputs=[made])
    spans = []
    for i in range(count):
        extent = rng.randint(1, 4 * LINE // 4)
        first, last = sorted(rng.choices(range(steps), k=2))
        spans.append((ir.Tensor(f"t{i}", Dtype.F32, (extent,), (1,), Space.ARENA), first, last))
    told = []
    for step in range(steps):
        for one, first, last in spans:
            if first == step:
                program.instructions.append(ir.Instruction(Op.FILL, one, (), {"value": 1.0}))
                told.append([one, len(program.instructions) - 1, 0])
            if last == step:
                program.instructions.append(ir.Instruction(Op.COPY, made, (one.view((1,), (1,)),), {}))
                next(row for row in told if row[0] is one)[2] = len(program.instructions) - 1
    return program, [(one, first, last) for one, first, last in told]


def test_two_that_are_alive_at_once_share_no_byte() -> None:
    """Beside what comparing each with each says."""
    rng, verdicts = random.Random(0), []
    for trial in range(150):
        program, spans = lives(rng.randint(1, 90), rng.randint(1, 60), rng)
        room = rng.choice([4, 40, 4000]) * LINE
        arena = plan_arena(program)
        offsets = {id(one): rng.randrange(0, room, LINE) for one, _, _ in spans}
        if trial % 3 == 0:
            offsets = arena.offsets
        blob = encode(program, {}, Arena(replace(arena.plan, peak=max(room + 4 * LINE, arena.plan.peak)), offsets))
        boxes = [(offsets[id(one)], offsets[id(one)] + storage_bytes(one), a, b) for one, a, b in spans]
        apart = all(
            x[1] <= y[0] or y[1] <= x[0] or x[3] < y[2] or y[3] < x[2] for i, x in enumerate(boxes) for y in boxes[:i]
        )
        assert python(blob) == c(blob) == (0 if apart else Verdict.OVERLAP)
        verdicts.append(apart)
    assert 40 < sum(verdicts) < 120


def test_calls_have_no_more_outputs_than_there_are_operands() -> None:
    """Else looking at all of them takes as long as their number times itself."""
    blob = bytearray(compiled("fallback")[0].data)
    start, size = sections(blob)[b"HOST"]
    assert size == CALL.size
    operands = sections(blob)[b"OPER"][1] // 4
    struct.pack_into("<II", blob, start + 8, 0, operands)
    assert python(signed(blob)) == c(signed(blob)) != Verdict.LISTS, "as many as there are"
    struct.pack_into("<I", blob, start + 12, operands + 1)
    assert python(signed(blob)) == c(signed(blob)) == Verdict.LISTS


@pytest.mark.parametrize(
    ("op", "space", "table", "update", "verdict"),
    [
        (Op.SCATTER, Space.STATE, "whole", "given", Verdict.SOUND),
        (Op.SCATTER, Space.STATE, "whole", "rows", Verdict.OVERLAP),
        (Op.SCATTER, Space.STATE, "again", "given", Verdict.OVERLAP),
        (Op.SCATTER, Space.ARENA, "whole", "given", Verdict.OVERLAP),
        (Op.COPY, Space.STATE, "whole", "given", Verdict.OVERLAP),
    ],
)
def test_only_a_scatter_of_a_whole_state_may_read_what_it_writes(
    op: Op, space: Space, table: str, update: str, verdict: Verdict
) -> None:
    state = ir.Tensor("state", Dtype.F32, (4, 2), (2, 1), space)
    state.data = torch.zeros(4, 2) if space is Space.STATE else None
    given = ir.Tensor("given", Dtype.F32, (2, 2), (2, 1), Space.INPUT)
    index = ir.Tensor("index", Dtype.I64, (2,), (1,), Space.INPUT)
    of = {"whole": state, "again": state.view((4, 2), (2, 1)), "given": given, "rows": state.view((2, 2), (2, 1))}
    first = ir.Instruction(Op.FILL, state, (), {"value": 1.0})
    change = ir.Instruction(op, state, (of[table], index, of[update]) if op is Op.SCATTER else (of[table],), {})
    program = ir.Program(inputs=[given, index], instructions=[first, change])
    blob = encode(program, {}, plan_arena(program))
    assert python(blob) == c(blob) == verdict
