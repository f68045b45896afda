"""Host: operators that a blob calls back into ``torch.ops``; ``passes.host_calls`` writes what is read here."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from atalla.dims import reach
from atalla.errors import KernelError
from atalla.hosted import hosted
from atalla.plain import plain
from atalla.run.guards import guard

if TYPE_CHECKING:
    import torch


def invoke(
    target: str, texts: str, operands: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], *, trust: bool = False
) -> None:
    """Run an operator, and write what it returns where the next instructions read it, complex numbers as pairs.

    Both texts come from a blob, which may come from anywhere: only operators are called, and nothing is evaluated. An
    operator sees the elements of its operands and nothing beside them; what it returns is checked before it is used.

    Args:
        target: the operator.
        texts: its arguments as JSON.
        operands: tensors of the blob.
        outputs: where the tensors go that it returns, as the blob describes them.
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
        fault = _mismatch(value, place)
        if fault:
            raise KernelError(0, f"{name} gave a tensor on the host that {fault}")
    for value, place in zip(made, outputs, strict=True):
        place.copy_(value)


def _mismatch(value: torch.Tensor, place: torch.Tensor) -> str | None:
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
    ends = reach(0, tensor.shape, tensor.stride())
    return 0 if ends is None else (ends[1] + 1) * tensor.element_size()


def arguments(texts: str, operands: Sequence[torch.Tensor]) -> tuple[list[Any], dict[str, Any], list[int] | None]:
    """Return the positional and the named arguments in a blob's text, and the outputs that are kept; None: all."""
    positional, named, *kept = json.loads(texts)
    by_name = {key: _decoded(value, operands) for key, value in named.items()}  # whatever the names are
    return _decoded(positional, operands), by_name, kept[0] if kept else None


def _decoded(value: Any, operands: Sequence[torch.Tensor]) -> Any:
    """Return arguments of what ``passes.host_calls`` made of them."""
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
