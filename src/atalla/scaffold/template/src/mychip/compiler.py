"""Compiler: an exported program becomes a blob, if the chip can run all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mychip.blob import MEMORY_FLOATS, NONE, Blob, Instruction, Tensor
from mychip.errors import CompileError
from mychip.support import ALL, OPERATORS, broken, operator_of, why_not

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


def normalize(program: ExportedProgram) -> ExportedProgram:
    """Return the program without operators that write in place, all but those that are the chip's taken apart."""
    import torch

    table = torch.export.default_decompositions()
    for operator in whole():
        table.pop(operator, None)
    normal: ExportedProgram = program.run_decompositions(table)
    return normal


def whole() -> list[Any]:
    """Return the operators that torch, or ExecuTorch, would take apart and the chip takes whole."""
    import torch

    return [torch.ops.aten.linear.default]


def compile_program(program: ExportedProgram) -> Blob:
    """Compile a normal program, of ATen or of ExecuTorch's edge dialect.

    Raises:
        CompileError: the chip cannot run it; the text names every operator that is not its own.
    """
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    refused = {f"{operator_of(node)}: {why}": None for node in nodes if (why := why_not(node))}
    if refused:
        raise CompileError(" ".join(refused))
    if program.graph_signature.buffers_to_mutate:
        raise CompileError("it changes a buffer, which the chip cannot")
    return _Lowering(program).blob()


class _Lowering:
    """Assigns every tensor a place in memory, one behind the other: constants, inputs, results.

    CHIP: here you plan memory (results that are dead could share a place), choose layouts, fuse and tile.
    """

    def __init__(self, program: ExportedProgram) -> None:
        self._graph = program.graph
        self._constants = _constants(program)
        self._tensors: list[Tensor] = []
        self._numbers: dict[Node, int] = {}

    def blob(self) -> Blob:
        """Return the whole."""
        placeholders = [node for node in self._graph.nodes if node.op == "placeholder"]
        held = [node for node in placeholders if node.name in self._constants and node.users]
        given = [node for node in placeholders if node.name not in self._constants]
        for node in (*held, *given):
            if why := broken(node, ALL) if _is_tensor(node) else "an input that is no tensor":
                raise CompileError(f"{node.name}: {why}")
            self._place(node)
        instructions = [self._instruction(node) for node in self._graph.nodes if node.op == "call_function"]
        memory = self._tensors[-1].end if self._tensors else 0
        if memory > MEMORY_FLOATS:
            raise CompileError(f"it needs {4 * memory:,} bytes of memory, and the chip has {4 * MEMORY_FLOATS:,}")
        constants = [self._constants[node.name].detach().cpu().numpy().ravel() for node in held]
        return Blob(
            tuple(self._tensors),
            tuple(instructions),
            tuple(self._numbers[node] for node in given),
            tuple(self._number(one) for one in self._graph.output_node().args[0]),
            np.concatenate([np.zeros(0, np.float32), *constants]),
            memory,
        )

    def _instruction(self, node: Node) -> Instruction:
        sources = [self._number(one) for one in node.args[:3] if one is not None]
        self._place(node)
        padded = (*sources, NONE, NONE, NONE)[:3]
        return Instruction(OPERATORS[operator_of(node)].op, self._numbers[node], padded)

    def _place(self, node: Node) -> None:
        rows, columns = matrix(node.meta["val"].shape)
        self._numbers[node] = len(self._tensors)
        self._tensors.append(Tensor(rows, columns, self._tensors[-1].end if self._tensors else 0))

    def _number(self, one: Any) -> int:
        if one not in self._numbers:
            raise CompileError(f"{one} is no tensor")
        return self._numbers[one]


def matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Return a shape as the chip sees it: ``(2, 3, 4)`` is 6 rows of 4 columns."""
    columns = shape[-1] if shape else 1
    return int(np.prod(shape[:-1], dtype=int)), columns


def _is_tensor(node: Node) -> bool:
    return hasattr(node.meta.get("val"), "dtype")


def _constants(program: ExportedProgram) -> dict[str, Any]:
    """Return the tensors of the program that never change, by the names of their placeholders."""
    signature, held = program.graph_signature, {**program.state_dict, **program.constants}
    names = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    return {placeholder: held[name] for placeholder, name in names.items()}
