"""Arena: where the storages of a program lie, planned from when each of them is used."""

from __future__ import annotations

from dataclasses import dataclass

from atalla import ir
from atalla.dims import reach
from atalla.isa import Space
from atalla.plan import Buffer, Plan, plan


@dataclass
class Arena:
    """Where the storages of the arena are."""

    plan: Plan
    offsets: dict[int, int]
    """Bytes, by the identity of the root."""


def plan_arena(program: ir.Program) -> Arena:
    """Plan the arena of a program."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    roots: dict[int, ir.Tensor] = {}
    for step, instruction in enumerate(program.instructions):
        for tensor in (*ir.written(program, instruction), *instruction.reads):
            root = tensor.storage
            if root.space is Space.ARENA:
                roots[id(root)] = root
                first.setdefault(id(root), step)
                last[id(root)] = step
    found = plan([Buffer(storage_bytes(roots[key]), first[key], last[key]) for key in roots])
    return Arena(found, dict(zip(roots, found.offsets, strict=True)))


def storage_bytes(root: ir.Tensor) -> int:
    """Return the bytes from a storage's first element to its last."""
    if root.data is not None:
        return int(root.data.numel()) * root.dtype.size
    ends = reach(0, root.shape, root.strides)
    return 0 if ends is None else (ends[1] + 1) * root.dtype.size
