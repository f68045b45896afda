"""Attention: one instruction, so that the scores never lie in memory."""

from __future__ import annotations

import math
from typing import Any

from atalla import ir
from atalla.dims import equal
from atalla.isa import Dtype, Op, Step
from atalla.lower import Lowering, UnsupportedError
from atalla.rules import rule
from atalla.rules.elementwise import Chain, broadcast
from atalla.rules.linear import float32, rows


@rule("scaled_dot_product_attention.default")
def attention(
    low: Lowering,
    q: ir.Tensor,
    k: ir.Tensor,
    v: ir.Tensor,
    mask: ir.Tensor | None = None,
    dropout: float = 0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ir.Tensor:
    """``softmax(scale · q kᵀ + mask) v``."""
    float32(q, k, v)
    _, shape = low.meta()
    if dropout or len(shape) != 4 or enable_gqa or not isinstance(q.shape[-1], int):
        raise UnsupportedError("attention of [batch, heads, length, size] without dropout, only")
    if not all(equal(one.shape[i], q.shape[i]) for one in (k, v) for i in (0, 1)):
        raise UnsupportedError("heads that are shared")
    sources: list[ir.Tensor | None] = [rows(low, one) for one in (q, k, v)]
    if mask is not None:
        sources.append(_added(low, mask, (*shape[:3], k.shape[2])))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    # [batch, length, heads, size] in memory: what follows joins the heads without a copy.
    return low.emit(Op.ATTENTION, low.like_node((0, 2, 1, 3)), sources, causal=int(causal), scale=float(factor))


def _added(low: Lowering, mask: ir.Tensor, shape: Any) -> ir.Tensor:
    """Give what is added to the scores: where a mask of truths is false, −∞."""
    if mask.dtype is Dtype.BOOL:
        chain = Chain()
        value = chain.read(mask)
        chain.step(Step.WHERE, value, chain.number(0.0, as_float=True), chain.number(-math.inf, as_float=True))
        mask = low.emit(Op.EW, low.new(Dtype.F32, mask.shape), chain.sources, steps=chain.attribute())
    float32(mask)
    return broadcast(mask, shape)
