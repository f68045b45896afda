"""State: the buffers of a program that a call changes, so that the next call depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from torch.export import ExportedProgram

STATE = "state"
"""Group of a sample file that holds the initial values; one that is all zeros is stored as an empty array."""


def state_of(program: ExportedProgram) -> tuple[str, ...]:
    """Return the names of the buffers that a call changes: those that the signature names, or a node writes into.

    A node writes where its operator's schema says so, into a buffer or a view of one.
    """
    signature = program.graph_signature
    found = dict.fromkeys(str(name) for name in signature.buffers_to_mutate.values())
    owner: dict[Any, str] = {}
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in signature.inputs_to_buffers:
            owner[node] = signature.inputs_to_buffers[node.name]
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None:
            continue
        for argument, value in zip(schema.arguments, node.args, strict=False):
            if argument.alias_info is None or not hasattr(value, "op") or value not in owner:
                continue
            if argument.alias_info.is_write:
                found[owner[value]] = None
            owner[node] = owner[value]
    return tuple(found)


def value_of(program: ExportedProgram, name: str) -> Any:
    """Return the initial value of a buffer, a torch tensor."""
    table = program.state_dict if name in program.state_dict else program.constants
    return table[name].detach()


def name_of(buffer: str) -> str:
    """Return a buffer's name for readers; a program that was traced again lies in another."""
    return buffer.removeprefix("inner.")


def stored(values: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Return initial values as a sample file holds them."""
    return [value if value.any() else value.reshape(-1)[:0] for value in values]
