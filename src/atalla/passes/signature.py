"""Signature: inputs, buffers, constants and outputs of an exported program, as its graph signature lists them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import dim
from atalla.dtypes import dtype_of
from atalla.errors import CompileError
from atalla.isa import Op, Space
from atalla.isa.format import MOST_BYTES
from atalla.passes.lowering import Lowering, constant

if TYPE_CHECKING:
    import torch


def read_inputs(program: torch.export.ExportedProgram, lowering: Lowering) -> dict[str, ir.Tensor]:
    """Enter the placeholders' values, inputs of the user and constants; return the states by the buffers' names."""
    from torch.export.graph_signature import InputKind

    mutated = set(program.graph_signature.buffers_to_mutate.values())
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    made: dict[int, ir.Tensor | ir.Complex] = {}
    states: dict[str, ir.Tensor] = {}
    for spec in program.graph_signature.input_specs:
        node = nodes.get(getattr(spec.arg, "name", ""))
        if spec.kind is InputKind.USER_INPUT:
            if node is None or not hasattr(node.meta.get("val"), "shape"):
                if node is not None:
                    lowering.values[node] = node.meta.get("val")
                continue
            value = node.meta["val"]
            if value.dtype.is_complex:
                raise CompileError(f"input {node.name} is complex: give its parts, and call torch.view_as_complex")
            tensor = ir.new_storage(node.name, dtype_of(value.dtype), map(dim, value.shape), map(dim, value.stride()))
            tensor.space = Space.INPUT
            _ranges(program, value, lowering.program)
            lowering.program.inputs.append(tensor)
            lowering.values[node] = tensor
            continue
        if node is None:
            continue
        held = held_tensor(program, spec.target)
        if spec.target in mutated:
            lowering.values[node] = states[spec.target] = _state(held, spec.target)
            continue
        if id(held) not in made:  # tied parameters are one constant
            made[id(held)] = _held(held, spec.target)
        lowering.values[node] = made[id(held)]
    return states


def _held(data: torch.Tensor, name: str) -> ir.Tensor | ir.Complex:
    """Return a parameter, a buffer or a constant."""
    import torch

    if data.dtype.is_complex:
        return ir.Complex(constant(torch.view_as_real(data.detach().resolve_conj()), name))
    return constant(data, name)


def _ranges(program: torch.export.ExportedProgram, value: torch.Tensor, into: ir.Program) -> None:
    """Note the symbols of an input's shape: what they may be, and what they are in the example."""
    extents: list[Any] = list(value.shape)
    for extent in extents:
        expression = dim(extent)
        symbols = list(getattr(expression, "free_symbols", ()))
        if len(symbols) != 1:
            continue
        symbol = symbols[0]
        factor, summand = expression.coeff(symbol, 1), expression.coeff(symbol, 0)
        if expression != factor * symbol + summand or symbol in into.ranges:
            continue
        limits = program.range_constraints.get(symbol)
        least, most = (0, MOST_BYTES) if limits is None else (max(int(limits.lower), 0), _finite(limits.upper))
        into.ranges[symbol] = (least, most, int((extent.node.hint - summand) / factor))


def _finite(limit: Any) -> int:
    """Return the most that a symbol may be, which torch may call infinite."""
    return min(int(limit), MOST_BYTES) if getattr(limit, "is_Integer", False) else MOST_BYTES


def _state(held: torch.Tensor, name: str) -> ir.Tensor:
    """Return the storage of a buffer that the program changes."""
    data = held.detach().contiguous()
    state = ir.new_storage(name, dtype_of(data.dtype), tuple(data.shape))
    state.space, state.data = Space.STATE, data
    return state


def held_tensor(program: torch.export.ExportedProgram, name: str | None) -> torch.Tensor:
    """Return a parameter, a buffer or a constant of a program.

    Raises:
        CompileError: it does not hold one of that name.
    """
    for group in (program.state_dict, program.constants):
        if name in group:
            found: torch.Tensor = group[name]
            return found
    raise CompileError(f"the program does not hold {name}")


def write_outputs(program: torch.export.ExportedProgram, lowering: Lowering, states: Mapping[str, ir.Tensor]) -> None:
    """Bring every output to where the caller finds it, in the program's strides; then change the states."""
    from torch.export.graph_signature import OutputKind

    (output,) = (node for node in program.graph.nodes if node.op == "output")
    changed: list[tuple[ir.Tensor, ir.Tensor]] = []
    for spec, node in zip(program.graph_signature.output_specs, output.args[0], strict=True):
        value = lowering.values[node] if hasattr(node, "meta") else node
        if spec.kind is OutputKind.BUFFER_MUTATION:
            if value is not states[spec.target]:
                changed.append((states[spec.target], value))
            continue
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise CompileError(f"an output of kind {spec.kind.name} is not compiled: clone the input that is changed")
        if isinstance(value, ir.Complex):
            raise CompileError(f"output {node.name} is complex: return torch.view_as_real of it")
        if not isinstance(value, ir.Tensor):
            lowering.program.outputs.append(value)
            continue
        lowering.node = node
        shape = node.meta["val"]
        place = ir.new_storage(node.name, value.dtype, value.shape, map(dim, shape.stride()))
        place.space = Space.OUTPUT
        lowering.program.outputs.append(place)
        lowering.emit(Op.COPY, place, [value])
    # What is read of a state is read before any changes.
    values = [lowering.copy(value) if value.storage.space is Space.STATE else value for _, value in changed]
    for (state, _), value in zip(changed, values, strict=True):
        lowering.emit(Op.COPY, state, [value])
