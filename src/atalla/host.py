"""Host: operators that the accelerator lacks are calls back into ``torch.ops``, with the strides of the program."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from atalla import ir
from atalla.dims import dim, equal
from atalla.errors import CompileError, KernelError
from atalla.guards import guard
from atalla.hosted import OWN, foreign, hosted
from atalla.isa import Dtype, Op
from atalla.lower import UnsupportedError, dtype_of, line_of
from atalla.plain import plain

if TYPE_CHECKING:
    import torch
    from torch.fx import Node

    from atalla.lower import Lowering


def call(low: Lowering, node: Node, arguments: Any, named: Any) -> Any:
    """Emit a call of the host for a node; return its outputs as values.

    Raises:
        CompileError: it is no operator of torch, or gives something that a blob cannot hold.
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
            raise CompileError(f"{node.target} gives {type(value).__name__}, whose value decides shapes at run time")
        try:
            dtype = dtype_of(value.dtype.to_real())
        except UnsupportedError as error:
            raise CompileError(f"{node.target} gives a tensor that a blob cannot hold: {error}") from error
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
    """Return which leaves of what a node gives are read; all, if none is."""
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
        if isinstance(value, ir.Tensor):
            assert isinstance(source, FxNode), "tensors come from nodes"
            operands.append(_as_exported(value, source, low))
            return {"tensor": len(operands) - 1}
        if isinstance(value, ir.Complex):
            assert isinstance(source, FxNode), "tensors come from nodes"
            operands.append(_as_exported(value.pairs, source, low))
            return {"pairs": len(operands) - 1}
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


def invoke(
    target: str,
    texts: str,
    operands: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    *,
    trust: bool = False,
) -> None:
    """Run an operator, and write what it gives where the next instructions read it, complex numbers as pairs.

    Both texts come from a blob, which may come from anywhere: only operators are called, and nothing is evaluated. An
    operator sees the elements of its operands and nothing beside them; what it gives is looked at before it is used.

    Args:
        target: the operator.
        texts: its arguments as JSON.
        operands: tensors of the blob.
        outputs: where the tensors go that it gives, as the blob describes them.
        trust: it may be any operator that torch knows.

    Raises:
        KernelError: torch has no such operator, the blob may not call it, it failed, or it gave something else.
    """
    import torch
    from torch._ops import OpOverload
    from torch.utils import _pytree as pytree

    name = plain(target)
    if not trust and target not in hosted():
        raise KernelError(0, f"{name} is no operator that a blob may call on the host")
    try:
        found: Any = operator.attrgetter(target)(torch.ops)
    except (AttributeError, RuntimeError) as error:
        raise KernelError(0, f"torch has no operator {name}") from error
    if not isinstance(found, OpOverload):
        raise KernelError(0, f"{name} is no operator of torch")
    try:
        positional, named, kept = arguments(texts, [confined(one) for one in operands])
        if not trust:
            guard(found, positional, named)
        with torch.no_grad():
            result = found(*positional, **named)
        made = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        made = made if kept is None else [made[i] for i in kept]
        made = [torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in made]
    except Exception as error:
        raise KernelError(0, f"{name} failed on the host: {plain(' '.join(str(error).split()))}") from error
    if len(made) != len(outputs):
        raise KernelError(0, f"{name} gave {len(made)} tensors on the host instead of {len(outputs)}")
    for value, place in zip(made, outputs, strict=True):
        fault = _fault(value, place)
        if fault:
            raise KernelError(0, f"{name} gave a tensor on the host that {fault}")
    for value, place in zip(made, outputs, strict=True):
        place.copy_(value)


def _fault(value: torch.Tensor, place: torch.Tensor) -> str | None:
    """Return how a tensor of an operator is not the one that the blob describes, or not whole; None where it is."""
    import torch

    if value.layout is not torch.strided or value.device.type != "cpu":
        return f"is {str(value.layout).removeprefix('torch.')} on {value.device}"
    if value.dtype is not place.dtype:
        return f"is {value.dtype} instead of {place.dtype}"
    if value.shape != place.shape:
        return f"has shape {list(value.shape)} instead of {list(place.shape)}"
    begin = value.storage_offset() * value.element_size()
    if value.numel() and begin + _reach(value) > value.untyped_storage().nbytes():
        return "reaches out of its memory"
    return None


def confined(tensor: torch.Tensor) -> torch.Tensor:
    """Return the same elements in the same memory, of which the tensor's storage holds no byte more.

    Views that an operator makes are checked against the storage, which else is all memory of a run, or the caller's.
    """
    import torch

    held, size = tensor.untyped_storage(), _reach(tensor)
    begin = tensor.storage_offset() * tensor.element_size()
    if begin == 0 and held.nbytes() == size:
        return tensor
    return torch.empty(0, dtype=tensor.dtype).set_(held[begin : begin + size], 0, tensor.shape, tensor.stride())


def _reach(tensor: torch.Tensor) -> int:
    """Return the bytes from a tensor's first element to the end of its last one; torch's strides are never below 0."""
    if not tensor.numel():
        return 0
    ends = ((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (1 + sum(ends)) * tensor.element_size()


def arguments(texts: str, operands: Sequence[torch.Tensor]) -> tuple[list[Any], dict[str, Any], list[int] | None]:
    """Return the positional and the named arguments in a blob's text, and the outputs that are kept; None: all."""
    positional, named, *kept = json.loads(texts)
    by_name = {key: _decoded(value, operands) for key, value in named.items()}  # whatever the names are
    return _decoded(positional, operands), by_name, kept[0] if kept else None


def _decoded(value: Any, operands: Sequence[torch.Tensor]) -> Any:
    """Return arguments of what :func:`_encoded` made of them."""
    import torch

    if isinstance(value, list):
        return [_decoded(item, operands) for item in value]
    if not isinstance(value, dict):
        return value
    makers: dict[str, Callable[[Any], Any]] = {
        "tensor": operands.__getitem__,
        "item": lambda number: operands[number].item(),
        "pairs": lambda number: torch.view_as_complex(operands[number]),
        "float": float.fromhex,
        "complex": lambda parts: complex(*map(float.fromhex, parts)),
        "torch": _torch_name,
        "device": _processor,
    }
    if len(value) == 1 and (kind := next(iter(value))) in makers:
        return makers[kind](value[kind])
    return {key: _decoded(item, operands) for key, item in value.items()}


def _processor(name: str) -> torch.device:
    """Return the device that a blob runs on, and no other."""
    import torch

    found = torch.device(name)
    if found.type != "cpu":
        raise KernelError(0, f"a blob runs on the processor, not on {found}")
    return found


def _torch_name(name: str) -> Any:
    """Return a dtype, layout or memory format, and nothing else that torch has."""
    import torch

    found = getattr(torch, name)
    if not isinstance(found, torch.dtype | torch.layout | torch.memory_format):
        raise KernelError(0, f"torch.{name} is no argument")
    return found
