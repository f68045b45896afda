"""Attention as ncnn takes it: with masks that are added. pnnx hands truths over as if they were floats."""

from __future__ import annotations

from typing import Any


def with_added_masks(module: Any) -> Any:
    """Change a traced module of ``ExportedProgram.module()``: causal and boolean masks of attention become floats.

    A mask that is true becomes 0, one that is false minus infinity, as torch's documentation defines attention.
    """
    import torch

    attention = torch.ops.aten.scaled_dot_product_attention.default
    changed = False
    for index, node in enumerate(module.graph.find_nodes(op="call_function", target=attention)):
        query, key, value, mask, dropout, is_causal = (*node.args, *(None, 0.0, False)[len(node.args) - 3 :])[:6]
        mask = node.kwargs.get("attn_mask", mask)
        is_causal = node.kwargs.get("is_causal", is_causal)
        with module.graph.inserting_before(node):
            if is_causal:
                name = f"causal_mask_{index}"
                shape = query.meta["val"].shape[-2], key.meta["val"].shape[-2]
                module.register_buffer(name, torch.full(shape, float("-inf")).triu(1))
                added = module.graph.get_attr(name)
            elif mask is not None and mask.meta["val"].dtype == torch.bool:
                added = module.graph.call_function(_added, (mask,))
            else:
                continue
        others = {k: v for k, v in node.kwargs.items() if k not in {"attn_mask", "is_causal", "dropout_p"}}
        node.args, node.kwargs = (query, key, value, added, dropout, False), others
        changed = True
    if changed:
        module.recompile()
    return module


def _added(mask: Any) -> Any:
    """Return what is added to the scores."""
    import torch

    return torch.where(mask, torch.zeros(()), torch.full((), float("-inf")))
