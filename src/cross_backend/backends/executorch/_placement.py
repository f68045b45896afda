"""Reading a finished ``.pte`` back: what lies in whose delegate, what in none, why, at what cost, from which line."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cross_backend.errors import LowerError
from cross_backend.placement import Operators, Placement, count_operators, group_left
from cross_backend.program.lines import user_line

_UNEXPLAINED = "in its table of operators, but its partitioner gave no reason"
_NESTED = "in a branch of control flow, where its partitioner does not look"
_SHAPES = "arithmetic on dynamic shapes, which the runtime does itself"

Rejections = dict[tuple[str, str], str]
"""(operator without namespace and overload, origin of the node) → why a partitioner refused the node."""


@contextmanager
def watch_rejections(path: str | None) -> Iterator[Rejections]:
    """Note what a vendor's ``module:Class.method(self, node, reason)`` is told about nodes that are refused."""
    found: Rejections = {}
    if path is None:
        yield found
        return
    module, _, attribute = path.partition(":")
    owner_name, _, name = attribute.partition(".")
    owner = getattr(importlib.import_module(module), owner_name)
    vendors = getattr(owner, name)

    def note(self: Any, node: Any, reason: str) -> Any:
        if node.op == "call_function":
            found.setdefault(_key(node), _readable(str(reason)))
        return vendors(self, node, reason)

    setattr(owner, name, note)
    try:
        yield found
    finally:
        setattr(owner, name, vendors)


def _readable(reason: str) -> str:
    """Return a reason, its sets sorted (Python prints them in any order), dynamic shapes marked as such."""
    reason = re.sub(r"\{([^{}]*)\}", lambda found: "{" + ", ".join(sorted(found[1].split(", "))) + "}", reason)
    return f"dynamic shape: {reason}" if "SymInt" in reason else reason


def _key(node: Any) -> tuple[str, str]:
    """Identify a node on its way to the finished file, where names and debug handles change.

    Its origin does not: the name of the captured program's node that it was made from, or its stack trace.
    """
    origin, sources = "", node.meta.get("from_node")
    while sources:
        origin, sources = sources[-1].name, sources[-1].from_node
    return _base(_name(node)), origin or str(node.meta.get("stack_trace", ""))


def _name(node: Any) -> str:
    """Return ``aten::mean.out``; the edge dialect's operators wrap ATen's."""
    import torch

    target = node.target if isinstance(node.target, torch._ops.OpOverload) else getattr(node.target, "_op", None)
    return target.name() if isinstance(target, torch._ops.OpOverload) else f"::{node.target}"


def _base(name: str) -> str:
    """Return ``mean`` for ``aten.mean.out`` and ``aten::mean``: overloads change on the way to the finished file."""
    return name.replace("::", ".").split(".")[1]


def read_placement(
    payload: Path,
    graph: Any,
    rejections: Rejections,
    delegate_id: str | None,
    blob_operators: Callable[[bytes], Mapping[str, int]],
    unlogged: Callable[[str], str | None],
) -> Placement:
    """Read a finished file's certificate.

    Args:
        payload: the file.
        graph: the graph that it was emitted from; for reasons and lines only.
        rejections: what the partitioner said.
        delegate_id: whose delegates count as inside; None where the kernels themselves do.
        blob_operators: counts the operators inside one delegate's blob.
        unlogged: returns the reason for ``mean.out``, which the partitioner said nothing about, or None.
    """
    from executorch.exir._serialize._program import deserialize_pte_binary
    from executorch.exir.schema import DataLocation, DelegateCall, KernelCall

    file = deserialize_pte_binary(payload.read_bytes())
    program = file.program
    named = sum(len(buffer) for buffer in file.named_data.buffers) if file.named_data else 0  # delegates' weights
    delegates: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    kernels: list[Operators] = []
    node_of = _node_finder(graph)
    for plan in program.execution_plan:
        calls = [(at, i.instr_args) for chain in plan.chains for at, i in enumerate(chain.instructions)]
        for at, call in calls:
            if isinstance(call, KernelCall):
                operator = plan.operators[call.op_index]
                name = f"{operator.name}.{operator.overload}" if operator.overload else operator.name
                node = node_of(at, name)
                why = _why(name, node, graph, rejections, unlogged)
                line = None if node is None else user_line(node.meta.get("stack_trace"))
                flops = _flops(operator, call.args, plan.values)
                kernels.append(Operators(name, 1, why, flops, (line,) if line else ()))
            elif isinstance(call, DelegateCall):
                delegate = plan.delegates[call.delegate_index]
                delegates[delegate.id] += 1
                if delegate.id != delegate_id:
                    continue
                if delegate.processed.location != DataLocation.INLINE:
                    raise LowerError(
                        f"the {delegate.id} blob in {payload.name} is not inline, so it cannot be checked."
                    )
                inside.update(blob_operators(program.backend_delegate_data[delegate.processed.index].data))
    foreign = {f"delegate {name}": count for name, count in delegates.items() if name != delegate_id}
    if delegate_id is None:
        inside, left = Counter(kernel.name for kernel in kernels), count_operators(foreign)
    else:
        left = (*group_left(kernels), *count_operators(foreign))
    return Placement(
        delegates=dict(delegates),
        inside=count_operators(inside),
        left=left,
        planned_bytes=sum(sum(plan.non_const_buffer_sizes) for plan in program.execution_plan),
        constant_bytes=sum(len(buffer.storage) for buffer in program.constant_buffer),
        delegate_bytes=sum(len(blob.data) for blob in program.backend_delegate_data) + named,
    )


def _node_finder(graph: Any) -> Callable[[int, str], Any]:
    """Return a function that finds the node of a kernel call: by the call's place in its chain, and its operator.

    The emitter leaves that place in the node's debug handle. Inside branches of control flow it counts from where the
    branch begins; those nodes are taken in order.
    """
    from torch.fx import GraphModule

    def emitted(graph: Any) -> list[Any]:
        return [node for node in graph.nodes if node.op == "call_function" and hasattr(node.target, "_schema")]

    by_place = {node.meta.get("debug_handle"): node for node in emitted(graph)}
    owner = graph.owning_module
    branches = [module for module in owner.modules() if isinstance(module, GraphModule)][1:] if owner else []
    nested = [node for branch in branches for node in emitted(branch.graph)]

    def find(at: int, name: str) -> Any:
        node = by_place.get(at)
        if node is not None:
            return node if _base(_name(node)) == _base(name) else None
        return nested.pop(0) if nested and _base(_name(nested[0])) == _base(name) else None

    return find


def _why(name: str, node: Any, graph: Any, rejections: Rejections, unlogged: Callable[[str], str | None]) -> str | None:
    if name.startswith(("executorch_prim::", "aten::sym_size")):
        return _SHAPES
    if node is None:
        return None
    if node.graph is not graph:
        return _NESTED
    return rejections.get(_key(node)) or unlogged(name.partition("::")[2]) or _UNEXPLAINED


def _flops(operator: Any, args: Sequence[int], values: Sequence[Any]) -> int:
    """Count a kernel call with torch's own formulas (``torch.utils.flop_counter``): matrix products, convolutions.

    A multiplication and an addition are two; what has no formula there counts nothing.
    """
    import torch
    from executorch.exir.schema import Bool, BoolList, Double, Int, IntList, Null, Tensor
    from torch.utils.flop_counter import flop_registry

    namespace, _, name = operator.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None)
    formula = flop_registry.get(packet)
    if formula is None:
        return 0

    def read(index: int) -> Any:
        value = values[index].val
        if isinstance(value, Tensor):
            return torch.empty(value.sizes, device="meta")
        if isinstance(value, IntList):  # its items are indices of values, too
            return [values[item].val.int_val for item in value.items]
        if isinstance(value, BoolList):
            return list(value.items)
        if isinstance(value, Int):
            return value.int_val
        if isinstance(value, Bool):
            return value.bool_val
        return value.double_val if isinstance(value, Double) else None if isinstance(value, Null) else value

    arguments = getattr(packet, operator.overload)._schema.arguments  # the results follow them and repeat the outputs
    inputs = [read(index) for index, argument in zip(args, arguments, strict=False) if not argument.kwarg_only]
    return int(formula(*inputs, out_val=read(args[len(arguments) - 1])))
