"""Composite operators that some compilers lack, taken apart into operators that all have."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

_SUM, _MEAN = 0, 1
_PICTURE = 4
"""Dimensions of a batch of pictures."""


def without_composites(program: ExportedProgram) -> ExportedProgram:
    """Return a program without ``weight_norm``, ``embedding_bag`` and ``prelu`` on other tensors than pictures.

    It is the same program where it has none of them.
    """
    import torch

    aten = torch.ops.aten
    table: dict[Any, Any] = {
        aten.embedding_bag.padding_idx: _embedding_bag,
        aten._weight_norm.default: _weight_norm,  # noqa: SLF001  its name
        aten.prelu.default: _prelu,
    }
    if not any(node.target in table for node in program.graph.nodes):
        return program
    found: ExportedProgram = program.run_decompositions(table)
    return found


def with_gelu_by_sigmoid(program: ExportedProgram) -> ExportedProgram:
    """Return a program whose gelu by tanh is ``x · sigmoid(2·√(2/π)·(x + 0.044715·x³))``: ½·(1 + tanh z) = sigmoid(2z).

    It is the same program where it has none.
    """
    import torch

    gelu = torch.ops.aten.gelu.default
    if not any(node.target is gelu and node.kwargs.get("approximate") == "tanh" for node in program.graph.nodes):
        return program
    found: ExportedProgram = program.run_decompositions({gelu: _gelu})
    return found


def _gelu(x: torch.Tensor, *, approximate: str = "none") -> Any:
    import torch

    if approximate != "tanh":
        return NotImplemented  # it stays
    return x * torch.sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))


def has_attention(program: Any) -> bool:
    """Whether torch's fused attention is in an ``ExportedProgram``."""
    return any("scaled_dot_product_attention" in str(node.target) for node in program.graph.nodes)


def with_plain_attention(program: ExportedProgram) -> ExportedProgram:
    """Return a program whose attention is products and a softmax; the same program where it has none."""
    import torch

    if not has_attention(program):
        return program
    found: ExportedProgram = program.run_decompositions(
        {torch.ops.aten.scaled_dot_product_attention.default: plain_attention}
    )
    return found


def plain_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,  # noqa: ARG001  torch names it
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Compute softmax(q·kᵀ·scale + mask)·v as torch does; dropout is off in inference.

    A row that the mask hides whole is 0.
    """
    import torch

    if enable_gqa:
        key, value = (x.repeat_interleave(query.size(-3) // x.size(-3), -3) for x in (key, value))
    scores = query @ key.transpose(-2, -1) * (query.size(-1) ** -0.5 if scale is None else scale)
    least = torch.finfo(scores.dtype).min  # not −inf, of which a row alone is 0/0
    if is_causal:  # each row sees its first column at least
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).tril()
        return torch.softmax(scores.masked_fill(~seen, least), -1) @ value
    if attn_mask is None:
        return torch.softmax(scores, -1) @ value
    if attn_mask.dtype == torch.bool:
        seen, scores = attn_mask, scores.masked_fill(~attn_mask, least)
    else:
        seen, scores = attn_mask > float("-inf"), (scores + attn_mask).clamp(min=least)
    return (torch.softmax(scores, -1) * seen.to(scores.dtype).amax(-1, keepdim=True)) @ value


def _prelu(x: Any, weight: Any) -> Any:
    """Compute max(x, 0) + weight·min(x, 0); pictures keep their operator."""
    import torch

    if x.dim() == _PICTURE:
        return NotImplemented
    slope = weight.reshape([1, -1, *[1] * (x.dim() - 2)]) if x.dim() > 1 else weight
    return torch.where(x > 0, x, slope * x)


def _weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """Compute v·g/‖v‖, the norm over all dimensions but one (Salimans & Kingma, 2016)."""
    import torch

    axes = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    return v * (g / torch.linalg.vector_norm(v, dim=axes, keepdim=True))


def _embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,  # noqa: ARG001  of training
    mode: int = _SUM,
    sparse: bool = False,  # noqa: ARG001  of training
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Compute the sum, mean or maximum of the rows of each bag, by a mask of which index is in which bag.

    torch returns three further tensors, for the gradient alone; they are empty here.
    """
    import torch

    starts = offsets[:-1] if include_last_offset else offsets
    ends = torch.cat([starts[1:], offsets[-1:] if include_last_offset else starts.new_full((1,), indices.shape[0])])
    place = torch.arange(indices.shape[0], device=indices.device)
    inside = (place[None, :] >= starts[:, None]) & (place[None, :] < ends[:, None])
    if padding_idx is not None and padding_idx >= 0:
        inside = inside & (indices != padding_idx)[None, :]
    rows = torch.nn.functional.embedding(indices, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    if mode in {_SUM, _MEAN}:
        found = inside.to(rows.dtype) @ rows
        if mode == _MEAN:
            found = found / inside.sum(1, keepdim=True).clamp(min=1).to(rows.dtype)
    else:
        found = rows[None].masked_fill(~inside[:, :, None], float("-inf")).amax(1)
        found = found.masked_fill(~inside.any(1, keepdim=True), 0.0)
    nothing = indices.new_empty((0,))
    return found, nothing, nothing, nothing
