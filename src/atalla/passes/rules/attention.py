"""Attention: one instruction, so that the scores never lie in memory."""

from __future__ import annotations

import math
from typing import Any

from atalla import ir
from atalla.dims import equal, strides_in_order
from atalla.isa import Dtype, Op, Step
from atalla.passes.constraints import Request, has_elements
from atalla.passes.lowering import Lowering
from atalla.passes.rule import rule
from atalla.passes.rules.chain import Chain, broadcast
from atalla.passes.rules.convolution import batched, unbatched
from atalla.passes.rules.linear import dense_rows


def float32_heads(asked: Request) -> bool:
    """Tensors must be float32; the mask may be bool."""
    mask = asked["mask"]
    return all(asked[name].dtype is Dtype.F32 for name in ("q", "k", "v")) and (
        mask is None or mask.dtype in {Dtype.F32, Dtype.BOOL}
    )


def no_dropout(asked: Request) -> bool:
    """There must be no dropout."""
    return not asked["dropout"]


def heads(asked: Request) -> bool:
    """Queries, keys and values must be [batch, heads, length, size], or without batch, with as many heads each."""
    parts = [asked[name] for name in ("q", "k", "v")]
    rank = len(parts[0].shape)
    return (
        rank in {3, 4}
        and all(len(one.shape) == rank for one in parts)
        and isinstance(parts[0].shape[-1], int)
        and all(equal(one.shape[i], parts[0].shape[i]) for one in parts for i in range(rank - 2))
    )


@rule(
    "scaled_dot_product_attention.default",
    makes=(Op.ATTENTION, Op.EW),
    needs=(float32_heads, has_elements, no_dropout, heads),
)
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
    dtype, shape = low.output_type()
    parts = [dense_rows(low, one) for one in (q, k, v)]
    if mask is not None:
        parts.append(_added(low, mask, (*shape[:-1], k.shape[-2])))
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    # [batch, length, heads, size] in memory: what follows joins the heads without a copy.
    full = shape if len(shape) == 4 else (1, *shape)
    dst = low.new(dtype, full, strides_in_order(full, (0, 2, 1, 3)))
    low.emit(Op.ATTENTION, dst, map(batched, parts), causal=int(causal), scale=float(factor))
    return dst if len(shape) == 4 else unbatched(dst)


def _added(low: Lowering, mask: ir.Tensor, shape: Any) -> ir.Tensor:
    """Return what is added to the scores: where a mask of truths is false, −∞."""
    if mask.dtype is Dtype.BOOL:
        chain = Chain()
        value = chain.read(mask)
        chain.step(Step.WHERE, value, chain.number(0.0, as_float=True), chain.number(-math.inf, as_float=True))
        mask = low.emit(Op.EW, low.new(Dtype.F32, mask.shape), chain.sources, steps=tuple(chain.steps))
    return broadcast(mask, shape)
