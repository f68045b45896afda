"""Fuse: neighbours become one instruction, so that what lies between them never lies in memory."""

from __future__ import annotations

from atalla import ir
from atalla.passes.fuse.attention import into_attention
from atalla.passes.fuse.chains import into_chains
from atalla.passes.fuse.place import into_place
from atalla.passes.fuse.products import into_products, into_weights
from atalla.passes.fuse.uses import without_dead


def fuse(program: ir.Program) -> None:
    """Change a program in place: affine maps, activations and residuals, chains, copies, what nobody reads."""
    for rewrite in (into_weights, into_products, into_chains, into_attention, into_place):
        rewrite(program)
        without_dead(program)
