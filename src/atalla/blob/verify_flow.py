"""Verify, all instructions together: what is read was written, what is needed is not overwritten; as in flow.c."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from atalla.blob.records import NOTHING
from atalla.blob.verify import Parts, Row, Step, need, reach, rows_of
from atalla.isa import Op, Space, Verdict


def flow(parts: Parts) -> None:
    """Check that nothing is read before it is written, and nothing alive is overwritten."""
    lives: dict[int, list[int]] = {}
    outputs = 0
    for at, step in enumerate(parts.steps):
        outputs += parts.calls[step.words[0]][3] if step.op == Op.CALL_HOST else 0
        need(outputs <= len(parts.operands), Verdict.LISTS)  # a call that many make takes its time each time
        _follow(parts, step, at, lives)
    for i, row in enumerate(parts.tensors):
        need(row.root != i or row.space != Space.OUTPUT or (i in lives and lives[i][0] >= 0), Verdict.READ)
    for space in (Space.ARENA, Space.STATE):
        _overlap(parts, lives, space)


def _follow(parts: Parts, step: Step, at: int, lives: dict[int, list[int]]) -> None:
    made: Sequence[int] = () if step.dst == NOTHING else (step.dst,)
    if step.op == Op.CALL_HOST:
        _, _, first, count = parts.calls[step.words[0]]
        made = parts.operands[first : first + count]
    roots = {parts.tensors[one].root for one in made}
    for row in rows_of(parts, step.sources):
        if row is None:
            continue
        need(row.root not in roots, Verdict.OVERLAP)
        given = row.space in {Space.INPUT, Space.CONST, Space.STATE}
        life = lives.setdefault(row.root, [-1, at])
        need(given or life[0] >= 0, Verdict.READ)
        life[1] = at
    for one in made:
        row = parts.tensors[one]
        need(row.space not in {Space.INPUT, Space.CONST} and _injective(row), Verdict.WRITE)
        life = lives.setdefault(row.root, [-1, at])
        life[0] = at if life[0] < 0 else life[0]
        life[1] = at


def _injective(row: Row) -> bool:
    """Whether no two elements share memory: each dim steps over all smaller ones."""
    if reach(row) is None:
        return True
    below = 0
    dims = [
        (abs(stride), extent) for extent, stride in zip(row.dim[: row.rank], row.stride, strict=False) if extent > 1
    ]
    for stride, extent in sorted(dims, key=lambda one: one[0]):
        if stride <= below:
            return False
        below += (extent - 1) * stride
    return True


def _overlap(parts: Parts, lives: dict[int, list[int]], space: Space) -> None:
    """Check that blocks of one space that are alive at once do not share memory."""
    blocks = []
    for i, row in enumerate(parts.tensors):
        if row.root != i or row.space != space or not row.bytes:
            continue
        first, last = (0, math.inf) if space is Space.STATE else lives.get(i, [-1, -1])
        if first >= 0:
            blocks.append((row.place, row.place + row.bytes, first, last))
    ends = sorted(blocks, key=lambda one: one[3])
    alive: list[tuple[int, int, float, float]] = []  # by their places: a new one may meet its neighbours only
    ended = 0
    for block in sorted(blocks, key=lambda one: one[2]):
        while ends[ended][3] < block[2]:
            del alive[bisect_left(alive, ends[ended])]
            ended += 1
        at = bisect_left(alive, block)
        need(at == 0 or alive[at - 1][1] <= block[0], Verdict.OVERLAP)
        need(at == len(alive) or block[1] <= alive[at][0], Verdict.OVERLAP)
        alive.insert(at, block)
