"""A program without writes into its own values, so that it can be cut between any two operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cross_backend.errors import UnsupportedError, one_line
from cross_backend.program.flattening import with_graph

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def functional(program: ExportedProgram) -> ExportedProgram:
    """Return a program in which no operator writes into a value; itself where none does.

    Each writing operator becomes the one that returns a new value, under its old name. Programs that write into state
    or into values with views go through torch's functionalisation: some names change, stack traces stay.

    Raises:
        UnsupportedError: torch cannot do it.
    """
    if not any(_written(node) is not None for node in program.graph.nodes):
        return program
    return _substituted(program) or _decomposed(program)


def _written(node: Any) -> Any | None:
    """Return the value that an operator writes into; None where there is none."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return None
    for argument, value in zip(schema.arguments, node.args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write and hasattr(value, "op"):
            return value
    return None


def _substituted(program: ExportedProgram) -> ExportedProgram | None:
    """Return the program with other operators; None where a write is seen by more than its own value."""
    import copy

    module = copy.deepcopy(program.graph_module)
    order = {node: at for at, node in enumerate(module.graph.nodes)}
    shared = _aliases(module.graph)
    for node in list(module.graph.nodes):
        base = _written(node)
        if base is None:
            continue
        made = _without_write(node.target)
        others = [one for one in shared[base] if one is not base and order[one] < order[node]]
        if made is None or base.op == "placeholder" or any(order[u] > order[node] for one in others for u in one.users):
            return None
        node.target = made
        base.replace_all_uses_with(node, delete_user_cb=lambda user, at=order[node]: order[user] > at)
    module.recompile()
    return with_graph(program, module)


def _without_write(target: Any) -> Any | None:
    """Return the operator that returns what another one writes: ``relu`` of ``relu_``."""
    import torch

    name = target._schema.name.partition("::")[2]  # noqa: SLF001  torch offers no other way
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None) if name.endswith("_") else None
    return getattr(packet, target._overloadname, None)  # noqa: SLF001


def _aliases(graph: Any) -> dict[Any, set[Any]]:
    """Return for each value those that share its memory, by the operators' schemas."""
    found: dict[Any, set[Any]] = {}
    for node in graph.nodes:
        found[node] = {node}
        schema = getattr(node.target, "_schema", None)
        for argument, value in zip(schema.arguments if schema else (), node.args, strict=False):
            if argument.alias_info is not None and hasattr(value, "op"):
                found[value] |= found[node]
                for one in found[value]:
                    found[one] = found[value]
    return found


def _decomposed(program: ExportedProgram) -> ExportedProgram:
    try:
        made: ExportedProgram = program.run_decompositions({})
    except Exception as error:
        raise UnsupportedError(
            f"torch cannot make this program functional, so it is not cut: {one_line(error)}"
        ) from error
    return made
