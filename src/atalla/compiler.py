"""Compile: the table of contents; an exported program becomes a blob, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atalla.blob import encode, plan_arena
from atalla.fuse import fuse
from atalla.lower import Fallback, lower
from atalla.normalize import normalize
from atalla.pack import pack
from atalla.rules import all_rules

if TYPE_CHECKING:
    import torch

    from atalla.ir import Program


@dataclass(frozen=True)
class Compiled:
    """A blob, and what became of the program on the way."""

    data: bytes
    """The blob."""
    program: Program
    """As it was before it was encoded."""
    fallbacks: tuple[Fallback, ...]
    """Nodes that run on the host, with the reason of each."""
    arena_bytes: int
    arena_bound: int
    """Bytes below which no plan of the arena can be."""


def compile(program: torch.export.ExportedProgram, *, exact: bool = False) -> Compiled:  # noqa: A001  the verb
    """Compile an exported program.

    Args:
        program: what ``torch.export`` gives; it stays as it is.
        exact: never reorder sums: no convolution by Winograd's.

    Raises:
        CompileError: it holds something that neither the accelerator nor the host can do.
    """
    return compile_normal(normalize(program), exact=exact)


def compile_normal(program: torch.export.ExportedProgram, *, exact: bool = False) -> Compiled:
    """Compile a program that is made of the operators that :func:`normalize` leaves."""
    lowering = lower(program, all_rules())
    fuse(lowering.program)
    pack(lowering.program, exact=exact)
    arena = plan_arena(lowering.program).plan
    meta = {"producer": "atalla", "exact": exact, "fallbacks": len(lowering.fallbacks)}
    data = encode(lowering.program, meta)
    return Compiled(data, lowering.program, tuple(lowering.fallbacks), arena.peak, arena.bound)
