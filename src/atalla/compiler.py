"""Compile: the table of contents; an exported program becomes a blob, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from atalla.blob.arena import plan_arena
from atalla.blob.writer import encode
from atalla.isa import Op
from atalla.passes.check import check_blob, check_program
from atalla.passes.fuse import fuse
from atalla.passes.lower import lower
from atalla.passes.lowering import Fallback
from atalla.passes.normalize import normalize
from atalla.passes.pack import pack
from atalla.passes.rules import all_rules
from atalla.passes.symbolic import resolve_symbols

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def compile(  # noqa: A001  the verb
    program: torch.export.ExportedProgram,
    *,
    exact: bool = False,
    bf16: bool = False,
    shapes: Sequence[Sequence[int]] | None = None,
) -> Compiled:
    """Compile an exported program.

    Args:
        program: what ``torch.export`` returns; it stays as it is. Where it has dynamic shapes, the blob runs with all
            of them.
        exact: never reorder sums: no convolution by Winograd's.
        bf16: multiply by weights in bfloat16 and add in float32; all else stays float32.
        shapes: of the inputs, for which alone a program with dynamic shapes is compiled.

    Raises:
        CompileError: it holds something that neither the accelerator nor the host can do.
        InputError: ``shapes`` are not of those for which the program was exported.
    """
    return compile_normal(normalize(program), exact=exact, bf16=bf16, shapes=shapes)


def compile_normal(
    program: torch.export.ExportedProgram,
    *,
    exact: bool = False,
    bf16: bool = False,
    shapes: Sequence[Sequence[int]] | None = None,
) -> Compiled:
    """Compile a program that is made of the operators that :func:`normalize` leaves; see :func:`compile`."""
    lowering = lower(program, all_rules())
    check_program(lowering.program, "lower")
    if shapes is not None:
        resolve_symbols(lowering.program, shapes)
    fuse(lowering.program)
    check_program(lowering.program, "fuse")
    hosted = {one.node for one in lowering.program.instructions if one.op is Op.CALL_HOST}
    fallbacks = tuple(one for one in lowering.fallbacks if one.node in hosted)
    pack(lowering.program, exact=exact, bf16=bf16)
    check_program(lowering.program, "pack")
    dynamic = resolve_symbols(lowering.program) if shapes is None else None
    check_program(lowering.program, "resolve_symbols")
    arena = plan_arena(lowering.program)
    meta = {
        "producer": "atalla",
        "exact": exact,
        "bf16": bf16,
        "fallbacks": {one.node: one.reason for one in fallbacks},
    }
    data = encode(lowering.program, meta, arena, dynamic)
    check_blob(data)
    return Compiled(data, lowering.program, fallbacks, arena.plan.peak, arena.plan.bound)
