"""Edge: ExecuTorch's dialect of a program as ATen operators again, and which of its nodes the accelerator can do."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import dim
from atalla.dtypes import dtype_of
from atalla.errors import CompileError, UnsupportedError
from atalla.isa import Space
from atalla.isa.format import MOST_DIMS
from atalla.passes.lower import value_of
from atalla.passes.lowering import Lowering, constant
from atalla.passes.rules import all_rules
from atalla.passes.signature import held_tensor

if TYPE_CHECKING:
    import torch
    from torch.fx import Node


def to_aten(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return the same program, nodes of the same names, with ATen's operators; the given one stays as it is.

    The edge dialect wraps them, copies where ATen returns views, and has orders of dims for ATen's memory formats.
    """
    import torch
    from torch._export.verifier import Verifier

    module = copy.deepcopy(program.graph_module)
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        node.target = _aten(unwrapped(node.target))
        if "dim_order" in node.kwargs:
            node.kwargs = {key: value for key, value in node.kwargs.items() if key == "dtype"}
    _write_numbers(program, module)
    return torch.export.ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=program.graph_signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=program.constants,
        verifiers=[Verifier],
    )


def unwrapped(target: Any) -> Any:
    """Return the operator of torch inside one of the edge dialect; anything else as it is."""
    from torch._ops import OpOverload

    return target if isinstance(target, OpOverload) else getattr(target, "_op", target)


def _aten(target: Any) -> Any:
    """Return the operator that has a rule: ``view`` for ``view_copy``, ``clone`` for ``_clone_dim_order``."""
    import torch

    namespace, _, rest = str(target).partition(".")
    name, _, overload = rest.partition(".")
    if namespace == "dim_order_ops":
        known = {"_clone_dim_order": torch.ops.aten.clone, "_to_dim_order_copy": torch.ops.aten._to_copy}  # noqa: SLF001
        return known[name].default if name in known else target
    if namespace == "aten" and f"aten.{rest}" not in all_rules() and name.endswith("_copy"):
        packet = getattr(torch.ops.aten, name.removesuffix("_copy"), None)
        return getattr(packet, overload, target)
    return target


def _constants(program: torch.export.ExportedProgram) -> dict[str, str]:
    """Return the placeholders that never change, and what they are called in the program."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    named = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    return {node: name for node, name in named.items() if name not in mutated}


def _write_numbers(program: torch.export.ExportedProgram, module: torch.fx.GraphModule) -> None:
    """Give operators their numbers back, which the edge dialect keeps as constants of no dims."""
    from torch._ops import OpOverload

    constants = _constants(program)
    numbers: dict[Node, torch.Tensor] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder" and node.name in constants:
            held = held_tensor(program, constants[node.name])
            if held.dim() == 0:
                numbers[node] = held
        elif str(node.target) == "aten._to_copy.default" and node.args[0] in numbers:
            numbers[node] = numbers[node.args[0]].to(node.meta["val"].dtype)
        elif isinstance(node.target, OpOverload) and len(node.args) > 1 and node.args[1] in numbers:
            packet, _, overload = str(node.target).rpartition(".")
            twin = getattr(node.target.overloadpacket, overload.replace("Tensor", "Scalar"), None)
            if "Tensor" in overload and twin is not None and f"{packet}.{overload}" in all_rules():
                node.target = twin
                node.args = (node.args[0], numbers[node.args[1]].item(), *node.args[2:])


@dataclass
class Trial:
    """What lowering some nodes of a program by themselves shows."""

    refused: dict[str, str] = field(default_factory=dict)
    """Name of a node → why no instruction does it."""
    works: bool = False
    """Whether any instruction came of it: constants and views need none."""


def try_to_lower(program: torch.export.ExportedProgram, nodes: Iterable[Node]) -> Trial:
    """Lower nodes, in order, as if all that they read from other nodes were inputs."""
    lowering, rules, trial = Lowering(), all_rules(), Trial()
    lowering.values = _Boundary(program)
    for node in nodes:
        lowering.node = node
        try:
            if node.target is not operator.getitem:
                _check_static(node)
            elif getattr(node.args[0], "name", "") in trial.refused:
                raise UnsupportedError("it is a part of what no instruction does")
            lowering.values[node] = value_of(node, lowering, rules)
        except (UnsupportedError, CompileError) as error:
            trial.refused[node.name] = str(error)
    trial.works = bool(lowering.program.instructions)
    return trial


def _check_static(node: Node) -> None:
    """Refuse what a blob for one size of every tensor cannot hold."""
    import torch
    from torch.utils import _pytree as pytree

    for value in pytree.tree_leaves([one.meta.get("val") for one in (*node.all_input_nodes, node)]):
        if not isinstance(value, torch.Tensor | None):
            raise UnsupportedError("it reads or returns a number that is known only at run time")
        if value is None:
            continue
        if value.dtype.is_complex:
            raise UnsupportedError("no instruction of a delegate computes with complex numbers")
        if not all(isinstance(extent, int) for extent in value.shape):
            raise UnsupportedError("a shape that is known only at run time")
        if len(value.shape) > MOST_DIMS:
            raise UnsupportedError(f"more than {MOST_DIMS} dims")


class _Boundary(dict["Node", Any]):
    """Values of nodes; what was not lowered is a constant of the program, or else an input."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        self._program = program
        self._constants = _constants(program)

    def __missing__(self, node: Node) -> Any:
        """Return the value, the same whenever it is asked for."""
        from torch.utils import _pytree as pytree

        name = self._constants.get(node.name)
        if node.op == "placeholder" and name is not None:
            self[node] = constant(held_tensor(self._program, name), name)
        else:
            self[node] = pytree.tree_map(lambda value: _input(node.name, value), node.meta.get("val"))
        return self[node]


def _input(name: str, value: Any) -> Any:
    if not hasattr(value, "stride"):
        return value
    tensor = ir.new_storage(name, dtype_of(value.dtype), map(dim, value.shape), map(dim, value.stride()))
    tensor.space = Space.INPUT
    return tensor
