"""Extents: a program that computes with its free extents, for those of one input; else numbers cross every cut."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UnsupportedError, failing_as
from cross_backend.program.flattening import with_graph

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def computes_with_extents(program: ExportedProgram) -> bool:
    """Whether operators of a program return numbers that follow from free extents."""
    return any(node.op == "call_function" and _is_number(node.meta.get("val")) for node in program.graph.nodes)


def with_extents(program: ExportedProgram, values: Mapping[str, Any]) -> ExportedProgram:
    """Return a program for the extents of one input.

    Args:
        program: flat; not modified.
        values: name of each placeholder → its tensor, of inputs, weights, constants and state.

    Raises:
        UnsupportedError: it cannot be run so, or it has conditions.
    """
    import torch
    from torch._guards import detect_fake_mode
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import _pytree

    module = copy.deepcopy(program.graph_module)
    if any(node.op == "get_attr" for node in module.graph.nodes):
        raise UnsupportedError("the program has conditions and free extents, so it is not cut.")
    held = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    fake = detect_fake_mode(held) or FakeTensorMode()
    numbers: dict[Any, Any] = {}

    class Noting(torch.fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            made = super().run_node(n)
            if _is_number(made):
                numbers[n] = made
            elif n.op != "output":
                n.meta["val"] = _pytree.tree_map(
                    lambda one: fake.from_tensor(one, static_shapes=True) if torch.is_tensor(one) else one, made
                )
            return made

    inputs = [values.get(node.name) for node in module.graph.nodes if node.op == "placeholder"]
    with torch.no_grad(), failing_as(UnsupportedError, "the program cannot be run on one input's extents"):
        Noting(module).run(*inputs, enable_io_processing=False)
    for node in list(module.graph.nodes):
        node.args, node.kwargs = (
            torch.fx.node.map_arg(given, lambda one: numbers.get(one, one)) for given in (node.args, node.kwargs)
        )
    made = with_graph(program, module)
    for node in reversed(list(made.graph.nodes)):
        if node.op == "call_function" and not node.users and not _has_tensors(node):
            made.graph.erase_node(node)  # a number, or a check of one
    made.graph_module.recompile()
    made.range_constraints.clear()
    return made


def _has_tensors(node: Any) -> bool:
    import torch
    from torch.utils import _pytree

    return any(torch.is_tensor(one) for one in _pytree.tree_leaves(node.meta.get("val")))


def _is_number(value: Any) -> bool:
    import torch

    return isinstance(value, int | float | bool | torch.SymInt | torch.SymFloat | torch.SymBool)
