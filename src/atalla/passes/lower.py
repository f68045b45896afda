"""Lower: FX nodes become instructions by one rule an operator; what has no rule becomes a call of the host.

Values of nodes are tensors, complex tensors, numbers, symbolic dims, None, or tuples of these. What depends on
constants alone is worked out here, by torch.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import dim
from atalla.errors import CompileError, UnsupportedError
from atalla.passes.host_calls import host_call
from atalla.passes.lowering import Fallback, Lowering, constant, constant_data, line_of
from atalla.passes.missing import what_is_missing
from atalla.passes.rules.complex_numbers import on_complex
from atalla.passes.signature import read_inputs, write_outputs

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

    from atalla.passes.rule import Rule

QUANTISED = ("quantized_decomposed.", "torchao.")
"""Operators that no blob calls on the host: what they lack is an error."""
FOLDED_AT_MOST = 1 << 20
"""Elements of a constant that is larger than all it is made of."""


def lower(program: torch.export.ExportedProgram, rules: Mapping[str, Rule]) -> Lowering:
    """Lower a normalised program.

    Raises:
        CompileError: something that neither the accelerator nor a call of the host can do.
    """
    lowering = Lowering()
    try:
        states = read_inputs(program, lowering)
    except UnsupportedError as error:
        raise CompileError(f"an input or a buffer is of a type that a blob cannot hold: {error}") from error
    for node in program.graph.nodes:
        lowering.node = node
        if node.op == "call_function":
            lowering.values[node] = _value(node, lowering, rules)
        elif node.op not in {"placeholder", "output"}:
            raise CompileError(f"{node.op} {node.target}: control flow and submodules are not compiled")
    lowering.node = None
    write_outputs(program, lowering, states)
    return lowering


def _value(node: Node, lowering: Lowering, rules: Mapping[str, Rule]) -> Any:
    try:
        return value_of(node, lowering, rules)
    except UnsupportedError as error:
        if str(node.target).startswith(QUANTISED):
            where = line_of(node)
            raise CompileError(
                f"{node.name}{f' ({where})' if where else ''}: {node.target} is not compiled: {error}"
            ) from error
        lowering.fallbacks.append(Fallback(node.name, str(node.target), str(error), line_of(node)))
        return host_call(lowering, node, _resolved(node.args, lowering), _resolved(node.kwargs, lowering))


def value_of(node: Node, lowering: Lowering, rules: Mapping[str, Rule]) -> Any:
    """Return the value of a node that calls a function, by the accelerator's own means.

    Raises:
        UnsupportedError: no instruction does it.
    """
    arguments, named = _resolved(node.args, lowering), _resolved(node.kwargs, lowering)
    if node.target is operator.getitem:
        return arguments[0][arguments[1]]
    if getattr(node.target, "__module__", "") in {"_operator", "math"} or "sym" in str(node.target):
        return _shape_arithmetic(node)
    if is_complex(node, arguments, named):
        return on_complex(lowering, node, arguments)
    rule = rules.get(str(node.target))
    folded = None if rule is not None and rule.folds else _folded(node, arguments, named)
    if folded is not None:
        return folded
    if rule is None:
        raise UnsupportedError(what_is_missing(str(node.target)))
    return rule(lowering, *arguments, **named)


def is_complex(node: Node, arguments: Any, named: Any) -> bool:
    """Whether a node takes or makes complex numbers."""
    import torch
    from torch.utils import _pytree as pytree

    made = (one for one in pytree.tree_leaves(node.meta.get("val")) if isinstance(one, torch.Tensor))
    return any(isinstance(one, ir.Complex | complex) for one in pytree.tree_leaves((arguments, named))) or any(
        one.dtype.is_complex for one in made
    )


def _resolved(value: Any, lowering: Lowering) -> Any:
    """Return arguments with the nodes' values in their places."""
    from torch.fx import Node

    if isinstance(value, Node):
        return lowering.values[value]
    if isinstance(value, Mapping):
        return {key: _resolved(one, lowering) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(_resolved(one, lowering) for one in value)
    return value


def _shape_arithmetic(node: Node) -> Any:
    value = node.meta["val"]
    return dim(value) if hasattr(value, "node") and not isinstance(value, bool) else value


def _folded(node: Node, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Return the constants that a node makes of constants; None where it reads anything else."""
    import torch
    from torch._ops import OpOverload
    from torch.utils import _pytree as pytree

    leaves = pytree.tree_leaves((list(arguments), dict(named)))
    tensors = [leaf for leaf in leaves if isinstance(leaf, ir.Tensor)]
    if any(constant_data(tensor) is None for tensor in tensors) or not isinstance(node.target, OpOverload):
        return None
    if torch.Tag.nondeterministic_seeded in node.target.tags or any(
        not isinstance(leaf, ir.Tensor | int | float | bool | str | torch.dtype | torch.device | torch.layout
                       | torch.memory_format | type(None))
        for leaf in leaves
    ):  # fmt: skip
        return None
    outputs = pytree.tree_leaves(node.meta.get("val"))
    if not all(isinstance(one, torch.Tensor) and all(isinstance(n, int) for n in one.shape) for one in outputs):
        return None
    limit = max([FOLDED_AT_MOST, *(int(tensor.elements) for tensor in tensors)])
    if sum(output.numel() for output in outputs) > limit:
        return None
    filled = pytree.tree_map(
        lambda leaf: constant_data(leaf) if isinstance(leaf, ir.Tensor) else leaf, (arguments, named)
    )
    with torch.no_grad():
        result = node.target(*filled[0], **filled[1])
    try:
        return pytree.tree_map(lambda one: constant(one, node.name) if isinstance(one, torch.Tensor) else one, result)
    except UnsupportedError:
        return None
