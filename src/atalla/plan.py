"""Plan: where each storage lies in the arena; several greedy orders are tried, the best is checked by other code.

Peak memory has a lower bound, the most bytes that are alive at once. A plan that reaches it is optimal. Where the best
greedy one does not, the C library searches (``csrc/canonical.c``); what remains is told as a gap.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from atalla.errors import AtallaError
from atalla.isa.format import LINE
from atalla.library import CPlanning, library

NODES = 300_000
"""Of the search at most: some seconds. It is not limited by time, so that the same program becomes the same blob."""


@dataclass(frozen=True)
class Buffer:
    """A block of memory that is needed for some time."""

    size: int
    """Bytes."""
    first: int
    """Step that writes it first."""
    last: int
    """Step that reads it last, at least ``first``."""

    def meets(self, other: Buffer) -> bool:
        """Whether both are alive at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Plan:
    """Offsets, and what is known of them."""

    offsets: tuple[int, ...]
    """Bytes from the beginning of the arena, one a buffer."""
    peak: int
    """Bytes of the arena."""
    bound: int
    """Bytes below which no plan can be."""
    searched: int = 0
    """Nodes of the search; 0 where none was needed, or where the C library is not there."""

    @property
    def is_optimal(self) -> bool:
        """Whether it is certain that no plan is smaller."""
        return self.peak == self.bound

    @property
    def certificate(self) -> str:
        """``optimal``, or how far above the bound the plan is."""
        return "optimal" if self.is_optimal else f"at most {self.peak / self.bound - 1:.2%} above the least"


def plan(buffers: Sequence[Buffer], nodes: int = NODES) -> Plan:
    """Place buffers; the result was checked.

    Args:
        buffers: what is to be placed.
        nodes: of the search at most.
    """
    sized = [Buffer(aligned(one.size), one.first, one.last) for one in buffers]
    bound, best = max_live(sized), None
    for order in _orders(sized):
        offsets = _best_fit(sized, order)
        peak = max((offset + one.size for offset, one in zip(offsets, sized, strict=True)), default=0)
        if best is None or peak < best.peak:
            best = Plan(tuple(offsets), peak, bound)
        if best.is_optimal:
            break
    assert best is not None, "there is at least one order"
    if not best.is_optimal:
        best = _searched(sized, best, nodes)
    fault = check_plan(buffers, best.offsets, best.peak)
    assert fault is None, fault
    return best


def _searched(buffers: Sequence[Buffer], best: Plan, nodes: int) -> Plan:
    """Search for a better plan in C; without the library the best stays."""
    try:
        search = library().atalla_plan
    except AtallaError:
        return best
    count = len(buffers)
    offsets = (ctypes.c_uint64 * count)()
    planning = CPlanning(
        struct_size=ctypes.sizeof(CPlanning),
        count=count,
        size=(ctypes.c_uint64 * count)(*(one.size for one in buffers)),
        first=(ctypes.c_uint32 * count)(*(one.first for one in buffers)),
        last=(ctypes.c_uint32 * count)(*(one.last for one in buffers)),
        align=LINE,
        nodes=nodes,
        offset=offsets,
    )
    if search(ctypes.byref(planning), None):
        return best
    found = planning.peak < best.peak
    return Plan(
        tuple(offsets) if found else best.offsets,
        planning.peak if found else best.peak,
        planning.bound,
        planning.searched,
    )


def aligned(size: int) -> int:
    """Round up to whole lines."""
    return -(-size // LINE) * LINE


def max_live(buffers: Iterable[Buffer]) -> int:
    """Return the most bytes that are alive at one step."""
    changes: dict[int, int] = {}
    for one in buffers:
        changes[one.first] = changes.get(one.first, 0) + one.size
        changes[one.last + 1] = changes.get(one.last + 1, 0) - one.size
    alive = most = 0
    for step in sorted(changes):
        alive += changes[step]
        most = max(most, alive)
    return most


def check_plan(buffers: Sequence[Buffer], offsets: Sequence[int], peak: int) -> str | None:
    """Return what is wrong with a plan; None if nothing is. It knows nothing of how the plan was made.

    A sweep over time that keeps the blocks alive in the order of their offsets, and looks at neighbours.
    """
    import bisect

    events = sorted(
        (step, kind, i)
        for i, one in enumerate(buffers)
        if one.size
        for step, kind in ((one.first, 1), (one.last + 1, 0))
    )
    alive: list[tuple[int, int, int]] = []
    for step, begins, i in events:
        block = (offsets[i], offsets[i] + buffers[i].size, i)
        if not begins:
            alive.remove(block)
            continue
        if block[0] < 0 or block[0] % LINE or block[1] > peak:
            return f"buffer {i} at {block[0]} is not aligned, or not in the arena of {peak} bytes"
        at = bisect.bisect(alive, block)
        for other in alive[max(at - 1, 0) : at + 1]:
            if other[0] < block[1] and block[0] < other[1]:
                return f"buffers {i} and {other[2]} overlap at step {step}"
        alive.insert(at, block)
    return None


def _orders(buffers: Sequence[Buffer]) -> Iterable[list[int]]:
    """Return orders in which to place: by size, by size and time, by time, and along the steps of most memory."""
    numbers = range(len(buffers))
    span: Mapping[int, int] = {i: buffers[i].last - buffers[i].first + 1 for i in numbers}
    yield sorted(numbers, key=lambda i: (-buffers[i].size, -span[i], buffers[i].first))
    yield sorted(numbers, key=lambda i: (-buffers[i].size * span[i], buffers[i].first))
    yield sorted(numbers, key=lambda i: (-span[i], -buffers[i].size))
    yield sorted(numbers, key=lambda i: (buffers[i].first, -buffers[i].size))
    yield _by_pressure(buffers)


def _by_pressure(buffers: Sequence[Buffer]) -> list[int]:
    """Return first what is alive at the step of most memory, then at the next, the largest first."""
    steps = sorted({one.first for one in buffers})
    weight = {step: sum(one.size for one in buffers if one.first <= step <= one.last) for step in steps}
    order: dict[int, None] = {}
    for step in sorted(steps, key=lambda step: -weight[step]):
        here = [i for i, one in enumerate(buffers) if one.first <= step <= one.last]
        order |= dict.fromkeys(sorted(here, key=lambda i: -buffers[i].size))
    return list(order)


def _best_fit(buffers: Sequence[Buffer], order: Iterable[int]) -> list[int]:
    """Place each buffer into the smallest gap that holds it between those that it meets."""
    offsets = [0] * len(buffers)
    placed: list[int] = []
    for i in order:
        one, best, smallest, end = buffers[i], None, None, 0
        for other in sorted((n for n in placed if buffers[n].meets(one)), key=lambda n: offsets[n]):
            gap = offsets[other] - end
            if gap >= one.size and (smallest is None or gap < smallest):
                best, smallest = end, gap
            end = max(end, offsets[other] + buffers[other].size)
        offsets[i] = end if best is None else best
        placed.append(i)
    return offsets
