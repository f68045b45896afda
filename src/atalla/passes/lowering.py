"""Lowering: what of a program has been lowered until now, and what rules make constants of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import Dim, dim, equal, strides_in_order
from atalla.dtypes import dtype_of
from atalla.isa import Dtype, Op, Space

if TYPE_CHECKING:
    import torch
    from torch.fx import Node


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
        return ir.new_storage(self.node.name if self.node is not None else "t", dtype, shape, strides)

    def like_node(self, order: Sequence[int] | None = None) -> ir.Tensor:
        """Return a new storage for the current node's first output; ``order`` is that of its dims in memory."""
        dtype, shape = self.output_type()
        return self.new(dtype, shape, None if order is None else strides_in_order(shape, order))

    def output_type(self) -> tuple[Dtype, tuple[Any, ...]]:
        """Return the element type and shape of the current node's first output, of complex numbers as pairs."""
        assert self.node is not None, "only nodes have outputs"
        value = self.node.meta["val"]
        first = value[0] if isinstance(value, tuple | list) else value
        pair = (2,) if first.dtype.is_complex else ()
        return dtype_of(first.dtype.to_real()), (*map(dim, first.shape), *pair)

    def fill(self, dst: ir.Tensor, value: float) -> ir.Tensor:
        """Write a number everywhere; return where."""
        return self.emit(Op.FILL, dst, value=float(value), whole=0 if dst.dtype.is_float else int(value))

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


def constant_data(value: Any) -> torch.Tensor | None:
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
