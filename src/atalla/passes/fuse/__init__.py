"""Fuse: neighbours become one instruction, so that what lies between them never lies in memory."""

from __future__ import annotations

from atalla import ir
from atalla.passes.fuse.attention import into_attention
from atalla.passes.fuse.chains import into_chains
from atalla.passes.fuse.parts import into_parts
from atalla.passes.fuse.place import into_place
from atalla.passes.fuse.products import into_activations, into_residuals, into_weights
from atalla.passes.fuse.quantized import into_integers, into_tables
from atalla.passes.fuse.state import into_state
from atalla.passes.fuse.sums import into_sums
from atalla.passes.fuse.uses import without_dead

REWRITES = (
    *(into_integers, into_sums, into_parts, into_weights, into_parts, into_residuals, into_parts, into_activations),
    *(into_chains, into_tables, into_attention, into_place, into_state),
)
"""In order: what one takes in, the next may follow."""


def fuse(program: ir.Program) -> None:
    """Change a program in place: affine maps, activations and residuals, chains, copies, what nobody reads."""
    for rewrite in REWRITES:
        rewrite(program)
        without_dead(program)
