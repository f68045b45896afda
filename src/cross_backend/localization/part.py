"""Part: some operators of a captured program as a program of its own; what enters them is its input."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UnsupportedError, failing_as
from cross_backend.localization.functional import functional
from cross_backend.program.flattening import flat_call_of

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


@dataclass(frozen=True)
class ProgramPart:
    """A part of a program, with flat positional inputs and outputs."""

    program: ExportedProgram
    inputs: tuple[str, ...]
    """Names of the values of the whole that enter, in the order in which the part takes them."""
    outputs: tuple[str, ...]
    """Names of the values of the whole that leave, in the order in which the part returns them."""
    nodes: tuple[str, ...]
    """Names of the operators, in order."""


def units(program: ExportedProgram) -> list[tuple[str, ...]]:
    """Return what cannot be cut further, in topological order: an operator, and what picks its several results.

    Operators that return no tensor, checks of shapes for example, are in none.
    """
    found = []
    for node in program.graph.nodes:
        if node.op == "call_function" and not _picks(node):
            names = (node, *(user for user in node.users if _picks(user)))
            if any(_tensor(one) is not None for one in names):
                found.append(tuple(one.name for one in names))
    return found


def part(
    program: ExportedProgram,
    nodes: Collection[str],
    outputs: Collection[str] | None = None,
    values: Mapping[str, torch.Tensor] | None = None,
    *,
    flat: bool = False,
) -> ProgramPart:
    """Cut operators out of a program.

    Weights and constants that they use come with them, as do stack traces and the graphs of conditions. State enters
    and leaves as a value. Operators that write into a value become those that return a new one.

    Args:
        program: flat, as it was captured.
        nodes: names of operators; those that pick a result of one of these are added. The results that they return
            need not be used together, but no operator outside may lie on a path between two of them.
        outputs: names of the values that leave; those that others use where None.
        values: name of a value → tensor, of which the part gets its example inputs.
        flat: whether values of three and more dimensions leave with one.

    Raises:
        UnsupportedError: the operators cannot be a program: they take what is no tensor, or lie around others.
    """
    whole = functional(program)
    chosen = _chosen(whole, set(nodes))
    entering, state = _entering(whole, chosen)
    leaving = _leaving(chosen, outputs)
    _check(whole, chosen, entering, leaving)
    with failing_as(UnsupportedError, "torch does not accept this part as a program"):
        made = _built(whole, chosen, entering, state, leaving, flat=flat)
    if values is not None:
        made.example_inputs = (tuple(values[node.name] for node in entering), {})
    return ProgramPart(
        made, tuple(n.name for n in entering), tuple(n.name for n in leaving), tuple(n.name for n in chosen)
    )


def _picks(node: Any) -> bool:
    return node.target is operator.getitem


def _tensor(node: Any) -> Any | None:
    """Return what a node's value looks like where that is one tensor."""
    import torch

    found = node.meta.get("val")
    return found if isinstance(found, torch.Tensor) else None


def _chosen(program: ExportedProgram, names: set[str]) -> list[Any]:
    unknown = names - {node.name for node in program.graph.nodes}
    if unknown:
        raise UnsupportedError(f"the program has no operator {', '.join(sorted(unknown))}.")
    chosen = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        if node.name in names or (_picks(node) and node.args[0].name in names):
            chosen.append(node)
            names.add(node.name)
    if not chosen:
        raise UnsupportedError("no operator was named.")
    return chosen


def _entering(program: ExportedProgram, chosen: Sequence[Any]) -> tuple[list[Any], set[Any]]:
    """Return the values that enter, in the order of the whole, and the weights and constants that come along."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    fixed = {**signature.inputs_to_parameters, **signature.inputs_to_lifted_tensor_constants}
    fixed |= {name: buffer for name, buffer in signature.inputs_to_buffers.items() if buffer not in mutated}
    inside, used = set(chosen), {one for node in chosen for one in node.all_input_nodes}
    state = {node for node in used if node.op == "placeholder" and node.name in fixed}
    order = [node for node in program.graph.nodes if node in used - inside - state and node.op != "get_attr"]
    return order, state


def _leaving(chosen: Sequence[Any], outputs: Collection[str] | None) -> list[Any]:
    inside = set(chosen)
    if outputs is not None:
        return [node for node in chosen if node.name in set(outputs)]
    used = [node for node in chosen if any(user not in inside for user in node.users)]
    return [node for node in used if not all(_picks(user) for user in node.users)]


def _check(program: ExportedProgram, chosen: Sequence[Any], entering: Sequence[Any], leaving: Sequence[Any]) -> None:
    if not leaving:
        raise UnsupportedError("nothing uses what these operators return.")
    for node in (*entering, *leaving):
        if _tensor(node) is None:
            raise UnsupportedError(f"the value of {node.name} is no tensor, so the program is not cut there.")
    inside = set(chosen)
    reached: set[Any] = set()
    for node in program.graph.nodes:  # what follows from the part, and leads back into it
        inputs = set(node.all_input_nodes)
        if node in inside and inputs & reached:
            between = next(iter(inputs & reached))
            raise UnsupportedError(f"{between.name} lies between operators of the part; add it, or make two parts.")
        if node not in inside and inputs & (inside | reached):
            reached.add(node)


def _built(
    program: ExportedProgram,
    chosen: Sequence[Any],
    entering: Sequence[Any],
    state: set[Any],
    leaving: Sequence[Any],
    *,
    flat: bool,
) -> ExportedProgram:
    import torch
    from torch.export import ExportedProgram as Exported
    from torch.export import ModuleCallEntry
    from torch.export.graph_signature import (
        ExportGraphSignature,
        InputKind,
        InputSpec,
        OutputKind,
        OutputSpec,
        TensorArgument,
    )

    graph, copies = torch.fx.Graph(), {}
    specs = {spec.arg.name: spec for spec in program.graph_signature.input_specs if hasattr(spec.arg, "name")}
    input_specs: list[Any] = []
    fixed = [node for node in program.graph.nodes if node in state]
    for node in (*fixed, *entering):
        made = graph.create_node("placeholder", node.name, (), {}, name=node.name)
        made.meta = {key: value for key, value in node.meta.items() if key in {"val", "tensor_meta"}}
        copies[node] = made
        argument = TensorArgument(name=made.name)
        if node in state:
            old = specs[node.name]
            input_specs.append(InputSpec(old.kind, argument, old.target, old.persistent))
        else:
            input_specs.append(InputSpec(InputKind.USER_INPUT, argument, None))
    for node in _with_attributes(chosen):
        copies[node] = graph.node_copy(node, lambda one: copies[one])
    ends = [_flattened(graph, copies[node]) if flat else copies[node] for node in leaving]
    graph.output(tuple(ends))
    output_specs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(name=one.name), None) for one in ends]
    signature = ExportGraphSignature(input_specs, output_specs)
    targets = {spec.target for spec in input_specs}
    module = torch.fx.GraphModule(program.graph_module, graph)
    return Exported(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict={name: one for name, one in program.state_dict.items() if name in targets},
        range_constraints=dict(program.range_constraints) if _has_free_extents(entering) else {},
        module_call_graph=[ModuleCallEntry("", flat_call_of(signature))],
        constants={name: one for name, one in program.constants.items() if name in targets},
        verifiers=program.verifiers,
    )


def _flattened(graph: Any, node: Any) -> Any:
    """Return a value as one row, where it has three and more dimensions."""
    import torch

    value = _tensor(node)
    if value is None or value.dim() < 3:
        return node
    made = graph.call_function(torch.ops.aten.flatten.using_ints, (node,))
    made.meta = {"val": value.flatten()}
    return made


def _with_attributes(chosen: Sequence[Any]) -> Iterator[Any]:
    """Yield the operators, each after the graphs and constants of the module that it uses."""
    seen: set[Any] = set()
    for node in chosen:
        for one in node.all_input_nodes:
            if one.op == "get_attr" and one not in seen:
                seen.add(one)
                yield one
        yield node


def _has_free_extents(nodes: Sequence[Any]) -> bool:
    return any(not isinstance(extent, int) for node in nodes for extent in node.meta["val"].shape)
