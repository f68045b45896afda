"""Inputs that a program only moves and makes float32 of: ncnn, which has no casts, is handed them as float32."""

from __future__ import annotations

from typing import Any

from cross_backend.program.running import name_of

_MOVES = frozenset(
    (
        *("alias", "clone", "contiguous", "expand", "flatten", "movedim", "narrow", "permute", "reshape", "select"),
        *("slice", "squeeze", "t", "transpose", "unflatten", "unsqueeze", "view"),
    )
)
"""Operators that compute nothing."""
_ASSERTION = "_assert_tensor_metadata"
"""What torch.export writes before a cast: the type that it is from."""


def without_input_casts(module: Any) -> list[bool]:
    """Take casts to float32 out of a module of ``ExportedProgram.module()`` where they stand before all computing.

    Returns:
        For each input, whether its casts were taken out, so that it is float32 from now on.
    """
    found = []
    for node in module.graph.find_nodes(op="placeholder"):
        ends = _ends(node) or []
        for end in ends:
            end.replace_all_uses_with(end.all_input_nodes[0])
            module.graph.erase_node(end)
        found.append(any(name_of(end) != _ASSERTION for end in ends))
    if any(found):
        module.recompile()
    return found


def _ends(node: Any) -> list[Any] | None:
    """Return the casts to float32, and assertions, that a value ends in, moved or not; None where it goes elsewhere."""
    import torch

    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype == torch.float32:
        return None
    found: list[Any] = []
    for user in node.users:
        made, name = user.meta.get("val"), name_of(user)
        is_cast = name in {"to", "_to_copy"} and isinstance(made, torch.Tensor) and made.dtype == torch.float32
        if is_cast or name == _ASSERTION:
            found.append(user)
            continue
        further = _ends(user) if name in _MOVES else None
        if further is None:
            return None
        found.extend(further)
    return found
