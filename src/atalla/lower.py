"""Lower: FX nodes become instructions by one rule an operator; what has no rule becomes a call of the host.

Values of nodes are tensors, complex tensors, numbers, symbolic dims, None, or tuples of these. What depends on
constants alone is worked out here, by torch.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import Dim, dim, equal
from atalla.errors import CompileError
from atalla.isa import Dtype, Op, Space
from atalla.symbolic import MOST

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

Rule = Callable[..., Any]
"""Called with the lowering and the node's arguments as values; gives the node's value."""
FOLDED_AT_MOST = 1 << 20
"""Elements of a constant that is larger than all it is made of."""


class UnsupportedError(Exception):
    """No instruction does this; the text is the user's reason."""


@dataclass
class Fallback:
    """A node that runs on the host."""

    node: str
    target: str
    reason: str
    line: str


@dataclass
class Lowering:
    """What has been lowered until now."""

    program: ir.Program = field(default_factory=ir.Program)
    values: dict[Node, Any] = field(default_factory=dict)
    fallbacks: list[Fallback] = field(default_factory=list)
    node: Node | None = None
    """The one that is being lowered."""

    def emit(self, op: Op, dst: ir.Tensor, sources: Iterable[ir.Tensor | None] = (), **attributes: Any) -> ir.Tensor:
        """Add an instruction of the current node; return what it writes."""
        name, line = (self.node.name, line_of(self.node)) if self.node is not None else ("", "")
        self.program.instructions.append(ir.Instruction(op, dst, tuple(sources), attributes, name, line))
        return dst

    def new(self, dtype: Dtype, shape: Iterable[Any], strides: Iterable[Any] | None = None) -> ir.Tensor:
        """Return a new storage in the arena, named after the current node."""
        return ir.dense(self.node.name if self.node is not None else "t", dtype, shape, strides)

    def like_node(self, order: Sequence[int] | None = None) -> ir.Tensor:
        """Return a new storage for the current node's first output; ``order`` is that of its dims in memory."""
        from atalla.dims import ordered

        dtype, shape = self.meta()
        return self.new(dtype, shape, None if order is None else ordered(shape, order))

    def meta(self) -> tuple[Dtype, tuple[Any, ...]]:
        """Return the element type and shape of the current node's first output."""
        assert self.node is not None, "only nodes have outputs"
        value = self.node.meta["val"]
        first = value[0] if isinstance(value, tuple | list) else value
        return dtype_of(first.dtype), tuple(map(dim, first.shape))

    def copy(self, tensor: ir.Tensor, strides: Iterable[Any] | None = None) -> ir.Tensor:
        """Return the same elements in a storage of their own."""
        return self.emit(Op.COPY, self.new(tensor.dtype, tensor.shape, strides), [tensor])

    def contiguous(self, tensor: ir.Tensor) -> ir.Tensor:
        """Return the same elements with the dims in memory in their own order."""
        return tensor if tensor.is_contiguous else self.copy(tensor)

    def same_size(self, first: Dim, second: Dim) -> None:
        """Note that two sizes are the same, where they do not look so."""
        if not equal(first, second):
            import sympy

            self.program.guards.append(sympy.Eq(first, second, evaluate=False))


def dtype_of(torch_dtype: torch.dtype) -> Dtype:
    """Return the element type.

    Raises:
        UnsupportedError: the accelerator has none such.
    """
    found = dtypes().get(torch_dtype)
    if found is None:
        raise UnsupportedError(f"no element type {str(torch_dtype).removeprefix('torch.')}")
    return found


def torch_dtype_of(dtype: Dtype) -> torch.dtype:
    """Return torch's name of an element type."""
    return next(name for name, found in dtypes().items() if found is dtype)


def dtypes() -> Mapping[torch.dtype, Dtype]:
    """Return the element types by torch's names."""
    import torch

    return {
        torch.float32: Dtype.F32,
        torch.float64: Dtype.F64,
        torch.float16: Dtype.F16,
        torch.bfloat16: Dtype.BF16,
        torch.int8: Dtype.I8,
        torch.uint8: Dtype.U8,
        torch.int16: Dtype.I16,
        torch.int32: Dtype.I32,
        torch.int64: Dtype.I64,
        torch.bool: Dtype.BOOL,
    }


def line_of(node: Node) -> str:
    """Return where a node comes from: ``model.py:12 in forward (blocks.3.mlp)``.

    The line is the innermost that is not torch's own; where all are torch's (a plain ``nn.Sequential``), the innermost
    of these. In brackets stands the innermost module.
    """
    import torch

    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)', node.stack_trace or "")
    if not frames:
        return ""
    own = torch.__file__.removesuffix("__init__.py")
    file, number, name = next((frame for frame in reversed(frames) if not frame[0].startswith(own)), frames[-1])
    modules = list((node.meta.get("nn_module_stack") or {}).values())
    path = f" ({modules[-1][0]})" if modules and modules[-1][0] else ""
    return f"{file.rpartition('/')[2]}:{number} in {name}{path}"


def constant(data: torch.Tensor, name: str) -> ir.Tensor:
    """Return a constant; one that repeats elements (expanded) holds each once."""
    data = data.detach()
    repeated = [i for i, (n, stride) in enumerate(zip(data.shape, data.stride(), strict=True)) if n > 1 and not stride]
    held = data
    for place in repeated:
        held = held.narrow(place, 0, 1)
    root = ir.Tensor(name, dtype_of(data.dtype), tuple(held.shape), tuple(held.stride()), Space.CONST)
    if root.order is None:
        held = held.contiguous()
        root.strides = tuple(held.stride())
    root.data = held
    if not repeated:
        return root
    strides = (0 if i in repeated else stride for i, stride in enumerate(root.strides))
    return root.view(data.shape, tuple(strides))


def known(value: Any) -> torch.Tensor | None:
    """Return the elements of a constant or of a view of one; None for what is not known yet."""
    if not isinstance(value, ir.Tensor) or value.storage.space is not Space.CONST:
        return None
    data = value.storage.data
    assert data is not None, "constants have elements"
    if value.root is None:
        return data
    if value.dtype is not value.storage.dtype or not all(isinstance(extent, int) for extent in value.shape):
        return None
    return data.as_strided(value.shape, value.strides, data.storage_offset() + value.offset)


def lower(program: torch.export.ExportedProgram, rules: Mapping[str, Rule]) -> Lowering:
    """Lower a normalised program.

    Raises:
        CompileError: something that neither the accelerator nor a call of the host can do.
    """
    lowering = Lowering()
    try:
        states = _inputs(program, lowering)
    except UnsupportedError as error:
        raise CompileError(f"an input or a buffer is of a type that a blob cannot hold: {error}") from error
    for node in program.graph.nodes:
        lowering.node = node
        if node.op == "call_function":
            lowering.values[node] = _value(node, lowering, rules)
        elif node.op not in {"placeholder", "output"}:
            raise CompileError(f"{node.op} {node.target}: control flow and submodules are not compiled")
    lowering.node = None
    _outputs(program, lowering, states)
    return lowering


def _value(node: Node, lowering: Lowering, rules: Mapping[str, Rule]) -> Any:
    try:
        return value_of(node, lowering, rules)
    except UnsupportedError as error:
        from atalla.host import call

        lowering.fallbacks.append(Fallback(node.name, str(node.target), str(error), line_of(node)))
        return call(lowering, node, _resolved(node.args, lowering), _resolved(node.kwargs, lowering))


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
    if _is_complex(node, arguments, named):
        raise UnsupportedError("no instruction computes with complex numbers")
    folded = _folded(node, arguments, named)
    if folded is not None:
        return folded
    rule = rules.get(str(node.target))
    if rule is None:
        raise UnsupportedError("no instruction does it")
    return rule(lowering, *arguments, **named)


def _is_complex(node: Node, arguments: Any, named: Any) -> bool:
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
    if any(known(tensor) is None for tensor in tensors) or not isinstance(node.target, OpOverload):
        return None
    if torch.Tag.nondeterministic_seeded in node.target.tags or any(
        not isinstance(leaf, ir.Tensor | int | float | bool | str | torch.dtype | torch.device | torch.layout
                       | torch.memory_format | type(None))
        for leaf in leaves
    ):  # fmt: skip
        return None
    outputs = pytree.tree_leaves(node.meta.get("val"))
    if not all(isinstance(output, torch.Tensor) and _is_static(output) for output in outputs):
        return None
    limit = max([FOLDED_AT_MOST, *(int(tensor.elements) for tensor in tensors)])
    if sum(output.numel() for output in outputs) > limit:
        return None
    filled = pytree.tree_map(lambda leaf: known(leaf) if isinstance(leaf, ir.Tensor) else leaf, (arguments, named))
    with torch.no_grad():
        result = node.target(*filled[0], **filled[1])
    try:
        return pytree.tree_map(lambda one: constant(one, node.name) if isinstance(one, torch.Tensor) else one, result)
    except UnsupportedError:
        return None


def _is_static(tensor: torch.Tensor) -> bool:
    return all(isinstance(extent, int) for extent in tensor.shape)


def _inputs(program: torch.export.ExportedProgram, lowering: Lowering) -> dict[str, ir.Tensor]:
    """Return values to the placeholders: inputs of the user, and constants; return the states by the buffers' names."""
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
            tensor = ir.dense(node.name, dtype_of(value.dtype), map(dim, value.shape), map(dim, value.stride()))
            tensor.space = Space.INPUT
            _ranges(program, value, lowering.program)
            lowering.program.inputs.append(tensor)
            lowering.values[node] = tensor
            continue
        if node is None:
            continue
        held = held_by(program, spec.target)
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
        least, most = (0, MOST) if limits is None else (max(int(limits.lower), 0), _finite(limits.upper))
        into.ranges[symbol] = (least, most, int((extent.node.hint - summand) / factor))


def _finite(limit: Any) -> int:
    """Return the most that a symbol may be, which torch may call infinite."""
    return min(int(limit), MOST) if getattr(limit, "is_Integer", False) else MOST


def _state(held: torch.Tensor, name: str) -> ir.Tensor:
    """Return the storage of a buffer that the program changes."""
    data = held.detach().contiguous()
    state = ir.dense(name, dtype_of(data.dtype), tuple(data.shape))
    state.space, state.data = Space.STATE, data
    return state


def held_by(program: torch.export.ExportedProgram, name: str | None) -> torch.Tensor:
    """Return a parameter, a buffer or a constant of a program.

    Raises:
        CompileError: it does not hold one of that name.
    """
    for group in (program.state_dict, program.constants):
        if name in group:
            found: torch.Tensor = group[name]
            return found
    raise CompileError(f"the program does not hold {name}")


def _outputs(program: torch.export.ExportedProgram, lowering: Lowering, states: Mapping[str, ir.Tensor]) -> None:
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
        place = ir.dense(node.name, value.dtype, value.shape, map(dim, shape.stride()))
        place.space = Space.OUTPUT
        lowering.program.outputs.append(place)
        lowering.emit(Op.COPY, place, [value])
    # What is read of a state is read before any changes.
    values = [lowering.copy(value) if value.storage.space is Space.STATE else value for _, value in changed]
    for (state, _), value in zip(changed, values, strict=True):
        lowering.emit(Op.COPY, state, [value])
