"""State: the buffers of a program that a call changes, so that the next call depends on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram


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
