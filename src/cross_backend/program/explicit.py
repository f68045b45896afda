"""Explicit state: a program that takes its state as further inputs, and returns the next state as further outputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cross_backend.program.flattening import flat_calls, rebuilt
from cross_backend.program.state import state_of, value_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def explicit(program: ExportedProgram) -> ExportedProgram:
    """Return a flat program without state of its own: state comes last among its inputs, and last among its outputs.

    A program without state is returned as it is.
    """
    from torch.export.graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec

    names = state_of(program)
    if not names:
        return program
    examples = program.example_inputs
    pure = program.run_decompositions({})  # writes become outputs
    graph, signature = pure.graph, pure.graph_signature
    buffers = {spec.target: spec for spec in signature.input_specs if spec.kind == InputKind.BUFFER}
    written = {spec.target: spec for spec in signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION}
    kept_inputs = [spec for spec in signature.input_specs if spec not in [buffers[name] for name in names]]
    kept_outputs = [spec for spec in signature.output_specs if spec.kind != OutputKind.BUFFER_MUTATION]

    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    own = {name: placeholders[buffers[name].arg.name] for name in names}
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for node in own.values():
        if node is not last:
            last.append(node)
            last = node
    (end,) = graph.find_nodes(op="output")
    values = {spec.arg.name: value for spec, value in zip(signature.output_specs, end.args[0], strict=True)}
    # A state that no path writes in the end is its own next value.
    nexts = [values[written[name].arg.name] if name in written else own[name] for name in names]
    outputs = [value for spec, value in zip(signature.output_specs, end.args[0], strict=True) if spec in kept_outputs]
    end.args = ((*outputs, *nexts),)
    graph.lint()
    pure.graph_module.recompile()

    inputs = [*kept_inputs, *(InputSpec(InputKind.USER_INPUT, buffers[name].arg, target=None) for name in names)]
    made = [
        *kept_outputs,
        *(
            OutputSpec(OutputKind.USER_OUTPUT, replace(buffers[name].arg, name=node.name), target=None)
            for name, node in zip(names, nexts, strict=True)
        ),
    ]
    flat = ExportGraphSignature(inputs, made)
    given: Any = ((*examples[0], *(value_of(program, name).clone() for name in names)), {}) if examples else None
    return rebuilt(pure, pure.graph_module, flat, flat_calls(pure, flat), given, without=names)
