"""Verify, all instructions together: what is read was written, what is needed is not overwritten; as in flow.c."""

from __future__ import annotations

import math
from bisect import bisect_left

from atalla.blob.reader import Listing
from atalla.blob.rows import InstructionRow, need
from atalla.dims import overlapping
from atalla.isa import Op, Space, Verdict


def written(listing: Listing, row: InstructionRow) -> tuple[int, ...]:
    """Return the tensors that an instruction writes."""
    if row.op is Op.CALL_HOST:
        return listing.calls[row.words[0]].outputs
    return () if row.dst is None else (row.dst,)


def check_flow(listing: Listing) -> None:
    """Check that nothing is read before it is written, and nothing alive is overwritten."""
    lives: dict[int, list[int]] = {}
    outputs = 0
    for at, row in enumerate(listing.instructions):
        outputs += len(written(listing, row)) if row.op is Op.CALL_HOST else 0
        need(outputs <= len(listing.operands), Verdict.LISTS)  # a call that many make takes its time each time
        _follow(listing, row, at, lives)
    for i, tensor in enumerate(listing.tensors):
        is_output = tensor.root == i and tensor.space is Space.OUTPUT
        need(not is_output or (i in lives and lives[i][0] >= 0), Verdict.READ)
    for space in (Space.ARENA, Space.STATE):
        _check_overlap(listing, lives, space)


def _follow(listing: Listing, row: InstructionRow, at: int, lives: dict[int, list[int]]) -> None:
    made = written(listing, row)
    roots = {listing.tensors[one].root for one in made}
    for number, source in enumerate(row.sources):
        if source is None:
            continue
        tensor = listing.tensors[source]
        is_in_place = row.op is Op.SCATTER and number == 0 and source == row.dst and tensor.space is Space.STATE
        need(tensor.root not in roots or is_in_place, Verdict.OVERLAP)
        given = tensor.space in {Space.INPUT, Space.CONST, Space.STATE}
        life = lives.setdefault(tensor.root, [-1, at])
        need(given or life[0] >= 0, Verdict.READ)
        life[1] = at
    for one in made:
        tensor = listing.tensors[one]
        need(
            tensor.space not in {Space.INPUT, Space.CONST} and not overlapping(tensor.shape, tensor.strides),
            Verdict.WRITE,
        )
        life = lives.setdefault(tensor.root, [-1, at])
        life[0] = at if life[0] < 0 else life[0]
        life[1] = at


def _check_overlap(listing: Listing, lives: dict[int, list[int]], space: Space) -> None:
    """Check that blocks of one space that are alive at once do not share memory."""
    blocks = []
    for i, row in enumerate(listing.tensors):
        if row.root != i or row.space is not space or not row.bytes:
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
