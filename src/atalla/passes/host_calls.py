"""Calls of the host: operators that the accelerator lacks, their arguments as JSON; ``run.host`` makes the calls."""

from __future__ import annotations

import json
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import dim, equal
from atalla.dtypes import dtype_of
from atalla.errors import CompileError, UnsupportedError
from atalla.hosted import OWN, foreign
from atalla.isa import Dtype, Op
from atalla.passes.lowering import Lowering, line_of

if TYPE_CHECKING:
    from torch.fx import Node


def host_call(low: Lowering, node: Node, arguments: Any, named: Any) -> Any:
    """Emit a call of the host for a node; return its outputs as values.

    Raises:
        CompileError: it is no operator of torch, or returns something that a blob cannot hold.
    """
    import torch
    from torch._ops import OpOverload
    from torch.utils import _pytree as pytree

    if not isinstance(node.target, OpOverload):
        raise CompileError(f"{node.target} is not compiled")
    if node.target.namespace in OWN and foreign([str(node.target)]):
        raise CompileError(f"{node.target} is not compiled: no blob may call it on the host (see docs/atalla/blob.md)")
    operands: list[ir.Tensor] = []
    outputs: list[ir.Tensor] = []

    def output(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            if value is None:
                return None
            raise CompileError(f"{node.target} returns {type(value).__name__}, whose value decides shapes at run time")
        try:
            dtype = dtype_of(value.dtype.to_real())
        except UnsupportedError as error:
            raise CompileError(f"{node.target} returns a tensor that a blob cannot hold: {error}") from error
        strides = tuple(map(dim, value.stride()))
        if value.dtype.is_complex:
            outputs.append(low.new(dtype, (*map(dim, value.shape), 2), _of_pairs(strides)))
            return ir.Complex(outputs[-1])
        outputs.append(low.new(dtype, map(dim, value.shape), strides))
        return outputs[-1]

    leaves, spec = pytree.tree_flatten(node.meta["val"])
    used = _used(node)
    values = pytree.tree_unflatten([output(leaf) if i in used else None for i, leaf in enumerate(leaves)], spec)
    tensors = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    given = _encoded(arguments, named, node, operands, low)
    texts = json.dumps([*given, [place for place, i in enumerate(tensors) if i in used]])
    low.program.calls.append(ir.HostCall(str(node.target), texts, tuple(outputs)))
    number = len(low.program.calls) - 1
    instruction = ir.Instruction(Op.CALL_HOST, None, tuple(operands), {"call": number}, node.name, line_of(node))
    low.program.instructions.append(instruction)
    return values


def _used(node: Node) -> set[int]:
    """Return which leaves of what a node returns are read; all, if none is."""
    from torch.utils import _pytree as pytree

    value = node.meta["val"]
    parts = value if isinstance(value, tuple | list) else [value]
    owners = [i for i, part in enumerate(parts) for _ in pytree.tree_leaves(part)]
    read = {user.args[1] if user.target is operator.getitem and parts is value else None for user in node.users}
    found = {place for place, i in enumerate(owners) if i in read}
    return set(range(len(owners))) if None in read or not found else found


def _encoded(arguments: Any, named: Any, node: Node, operands: list[ir.Tensor], low: Lowering) -> list[Any]:
    """Return the arguments as JSON has them: what it has no word for is an object of one key."""
    from torch.fx import Node as FxNode

    def one(value: Any, source: Any) -> Any:
        if isinstance(value, ir.Tensor | ir.Complex):
            assert isinstance(source, FxNode), "tensors come from nodes"
            word, tensor = ("tensor", value) if isinstance(value, ir.Tensor) else ("pairs", value.pairs)
            operands.append(_as_exported(tensor, source, low))
            return {word: len(operands) - 1}
        if isinstance(value, Mapping):
            return {key: one(item, source[key]) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return [one(item, source[i] if isinstance(source, Sequence) else source) for i, item in enumerate(value)]
        if hasattr(value, "free_symbols"):
            operands.append(_extent(value, low, node))
            return {"item": len(operands) - 1}
        return _word(value, node)

    return [one(list(arguments), list(node.args)), one(dict(named), dict(node.kwargs))]


def _word(value: Any, node: Node) -> Any:
    """Return an argument that is no tensor and holds none."""
    import torch

    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise CompileError(f"{node.target} takes {value}, which a blob cannot hold")


def _extent(value: Any, low: Lowering, node: Node) -> ir.Tensor:
    """Return a size that is known when inputs are as a tensor of one number."""
    if not value.is_integer:
        raise CompileError(f"{node.target} takes {value}, which is worked out of sizes and is no whole number")
    return low.emit(Op.FILL, low.new(Dtype.I64, ()), value=0.0, whole=value)


def _of_pairs(strides: Sequence[Any]) -> tuple[Any, ...]:
    """Return the strides of complex numbers' parts."""
    return (*(2 * stride for stride in strides), 1)


def _as_exported(value: ir.Tensor, node: Node, low: Lowering) -> ir.Tensor:
    """Return the same elements in the strides that the operator saw when the program was exported."""
    meant = tuple(map(dim, node.meta["val"].stride()))
    if node.meta["val"].dtype.is_complex:
        meant = _of_pairs(meant)
    large = [i for i, extent in enumerate(value.shape) if not equal(extent, 1)]
    if all(equal(value.strides[i], meant[i]) for i in large):
        return value
    return low.copy(value, meant)
