"""Symbolic: dims that depend on the sizes of inputs become numbers, and what they are worked out of is kept.

A program with symbols is compiled for the sizes of an example; beside it the blob says how every number that depends on
a symbol is worked out, so that a loader can write the tables again for other sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atalla import ir
from atalla.dims import Dim
from atalla.errors import CompileError, InputError
from atalla.isa import NodeKind
from atalla.isa.format import MOST_BYTES, MOST_FACTOR
from atalla.symbols import Symbol, SymbolTable, bind, evaluate_node


def resolve_symbols(program: ir.Program, inputs: Sequence[Sequence[int]] | None = None) -> SymbolTable | None:
    """Put numbers in the places of all expressions.

    Args:
        program: changed in place.
        inputs: shapes of the inputs, for which alone it is compiled; None: the example's, and all others stay possible.

    Returns:
        What the numbers are worked out of; None where there are no symbols, or they are fixed.

    Raises:
        CompileError: a size that is known only while the program runs, or is worked out in a way no loader knows.
        InputError: ``inputs`` do not fit the program.
    """
    names = list(program.ranges)
    symbols = [_symbol(program, name) for name in names]
    values = [program.ranges[name][2] for name in names] if inputs is None else _bound(program, symbols, inputs)
    numbers = Numbers({name: i for i, name in enumerate(names)}, values)
    shapes = SymbolTable(symbols, numbers.nodes)
    for relation in program.guards:
        shapes.guards.append(_guard(relation, numbers))
    for tensor in _tensors(program):
        _put_numbers_into_tensor(tensor, numbers, shapes)
    for instruction in program.instructions:
        _put_numbers_into_attributes(instruction, numbers, shapes)
    outputs: list[Any] = program.outputs
    for i, value in enumerate(outputs):
        if _is_expression(value):
            shapes.outputs[i] = numbers.node(value)
            outputs[i] = numbers.number(value)
    if inputs is None:
        return shapes if symbols else None
    _compare(program, inputs)
    if not all(least <= numbers.values[node] <= most for node, least, most in shapes.guards):
        raise InputError("the program was not exported for these shapes")
    return None


def _compare(program: ir.Program, inputs: Sequence[Sequence[int]]) -> None:
    for one, wanted in zip(program.inputs, inputs, strict=True):
        if tuple(one.shape) != tuple(wanted):
            raise InputError(f"input {one.name} has shape {list(wanted)} where the others ask for {list(one.shape)}")


def _is_expression(value: Any) -> bool:
    return hasattr(value, "free_symbols")


def _symbol(program: ir.Program, name: Any) -> Symbol:
    """Find the dim of an input that sets a symbol."""
    for i, tensor in enumerate(program.inputs):
        for k, extent in enumerate(tensor.shape):
            if not _is_expression(extent) or extent.free_symbols != {name}:
                continue
            factor, summand = extent.coeff(name, 1), extent.coeff(name, 0)
            if (
                factor.is_Integer
                and summand.is_Integer
                and 0 < factor <= MOST_FACTOR
                and extent == factor * name + summand
            ):
                least, most, _ = program.ranges[name]
                return Symbol(str(name), least, most, i, k, int(factor), int(summand))
    raise CompileError(f"no dim of an input says what the size {name} is")


def _bound(program: ir.Program, symbols: Sequence[Symbol], inputs: Sequence[Sequence[int]]) -> list[int]:
    if len(inputs) != len(program.inputs):
        raise InputError(f"{len(inputs)} shapes of inputs instead of {len(program.inputs)}")
    for one, wanted in zip(program.inputs, inputs, strict=True):
        if len(wanted) != len(one.shape):
            raise InputError(f"input {one.name} has {len(wanted)} dims instead of {len(one.shape)}")
    found = bind(symbols, inputs)
    if isinstance(found, Symbol):
        name, extent = program.inputs[found.input].name, inputs[found.input][found.dim]
        raise InputError(f"input {name} has {extent} in dim {found.dim}, for which it was not exported")
    return found


@dataclass
class Numbers:
    """Expressions as nodes, each made once, and their values."""

    symbols: Mapping[Any, int]
    given: Sequence[int]
    """Values of the symbols."""
    nodes: list[tuple[NodeKind, int, int]] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)
    """By nodes, and by expressions."""

    def number(self, value: Dim) -> int:
        """Return the value of a dim."""
        return value if isinstance(value, int) else self.values[self.node(value)]

    def node(self, value: Dim) -> int:
        """Return the node of a dim.

        Raises:
            CompileError: no loader knows how to work it out.
        """
        if value not in self.known:
            self.known[value] = self._new_node(value)
        return self.known[value]

    def _new_node(self, value: Dim) -> int:
        kind = type(value).__name__
        if isinstance(value, int) or value.is_Integer:
            return self._add(NodeKind.CONST, int(value), 0)
        if value.is_Symbol:
            if value not in self.symbols:
                raise CompileError(f"the size {value} is known only while the program runs: that is not compiled")
            return self._add(NodeKind.SYMBOL, self.symbols[value], 0)
        if kind == "Pow" and value.args[1].is_Integer and value.args[1] > 0:
            return self._chained(NodeKind.MUL, [value.args[0]] * int(value.args[1]))
        found = _KINDS.get(kind)
        if found is None:
            raise CompileError(f"the size {value} is worked out in a way that is not compiled ({kind})")
        return self._chained(found, value.args)

    def _chained(self, kind: NodeKind, parts: Sequence[Any]) -> int:
        result = self.node(parts[0])
        for part in parts[1:]:
            result = self._add(kind, result, self.node(part))
        return result

    def _add(self, kind: NodeKind, a: int, b: int) -> int:
        row = (kind, a, b)
        if row not in self.known:
            if kind is NodeKind.CONST or kind is NodeKind.SYMBOL:
                value: int | None = a if kind is NodeKind.CONST else self.given[a]
            else:
                value = evaluate_node(kind, self.values[a], self.values[b])
            if value is None or abs(value) > MOST_BYTES:
                raise CompileError("a size is beyond what a blob holds, or divided by one below 1")
            self.known[row] = len(self.nodes)
            self.nodes.append(row)
            self.values.append(value)
        return self.known[row]


_KINDS = {
    "Add": NodeKind.ADD, "Mul": NodeKind.MUL, "FloorDiv": NodeKind.FLOOR_DIV, "CleanDiv": NodeKind.FLOOR_DIV,
    "Mod": NodeKind.MOD, "PythonMod": NodeKind.MOD, "Min": NodeKind.MIN, "Max": NodeKind.MAX,
}  # fmt: skip
"""Of sympy's and torch's names."""


def _guard(relation: Any, numbers: Numbers) -> tuple[int, int, int]:
    """Return the node, and its bounds, of a relation between two dims."""
    kind = type(relation).__name__
    bounds = {
        "Equality": (0, 0), "GreaterThan": (0, MOST_BYTES), "LessThan": (-MOST_BYTES, 0),
        "StrictGreaterThan": (1, MOST_BYTES), "StrictLessThan": (-MOST_BYTES, -1),
    }  # fmt: skip
    if kind == "Unequality":
        return numbers.node((relation.lhs - relation.rhs) ** 2), 1, MOST_BYTES
    if kind not in bounds:
        raise CompileError(f"the program holds only where {relation}: that is not compiled")
    return numbers.node(relation.lhs - relation.rhs), *bounds[kind]


def _tensors(program: ir.Program) -> Iterator[ir.Tensor]:
    """Return every tensor once."""
    seen: dict[int, ir.Tensor] = {}
    for instruction in program.instructions:
        for tensor in (*instruction.reads, *ir.written(program, instruction)):
            seen[id(tensor)] = tensor
            seen[id(tensor.storage)] = tensor.storage
    seen |= {id(one): one for one in (*program.inputs, *program.outputs) if isinstance(one, ir.Tensor)}
    yield from seen.values()


def _put_numbers_into_tensor(tensor: ir.Tensor, numbers: Numbers, shapes: SymbolTable) -> None:
    dims = (0, tensor.offset), *enumerate(tensor.shape, 1), *enumerate(tensor.strides, 9)
    found = [(place, numbers.node(value)) for place, value in dims if _is_expression(value)]
    if not found:
        return
    shapes.tensors[id(tensor)] = found
    tensor.offset = numbers.number(tensor.offset)
    tensor.shape = tuple(numbers.number(one) for one in tensor.shape)
    tensor.strides = tuple(numbers.number(one) for one in tensor.strides)


def _put_numbers_into_attributes(instruction: ir.Instruction, numbers: Numbers, shapes: SymbolTable) -> None:
    found = {name: value for name, value in instruction.attributes.items() if _is_expression(value)}
    if not found:
        return
    shapes.attributes[id(instruction)] = {name: numbers.node(value) for name, value in found.items()}
    settled = {name: numbers.number(value) for name, value in found.items()}
    instruction.attributes = {**instruction.attributes, **settled}
