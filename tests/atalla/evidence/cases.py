"""Cases: calls of operators with PyTorch's OpInfo samples, each in several layouts of its tensors in memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import torch
from torch.utils import _pytree as pytree

from atalla.dtypes import dtypes
from atalla.passes.rules import all_rules

with patch.object(torch.backends, "disable_global_flags"):  # it would forbid everyone in this process to set a flag
    from torch.testing._internal.common_methods_invocations import op_db

if TYPE_CHECKING:
    from torch.testing._internal.opinfo.core import OpInfo

DTYPES = tuple(dtypes())
LAYOUTS = ("contiguous", "gaps", "reversed")
"""In memory: as torch makes them; with gaps between elements; the first dim innermost."""
WEIGHTS = (
    *("addmm", "conv1d", "conv2d", "conv3d", *(f"conv_transpose{dims}d" for dims in (1, 2, 3))),
    *("linear", "batch_norm", "matmul", "mm", "bmm", "embedding", "prelu", "where"),
)
"""Operators that do otherwise where some of their tensors are known at compile time."""
LARGEST = 20_000
"""Elements of a case's largest tensor: more of them show nothing new."""
SEEDS = range(1, 7)
"""Of torch's generators: what differs between two of them is random."""
RANDOM = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""What gives whatever lies in memory."""


@dataclass(frozen=True)
class Case:
    """One call."""

    operator: str
    """OpInfo's name."""
    dtype: str
    layout: str
    function: Callable[..., Any]
    """Called with the tensors; everything else that the operator takes is inside."""
    tensors: tuple[torch.Tensor, ...]
    fixed: int
    """How many of the last tensors are the program's own, as weights are."""
    wanted: tuple[Any, ...]
    """What eager gives: leaves."""


def operators() -> dict[str, OpInfo]:
    """Give PyTorch's table, by full name."""
    return {f"{op.name}.{op.variant_test_name}".rstrip("."): op for op in op_db}


def is_claimed(op: OpInfo) -> bool:
    """Say whether an operator of Atalla's has this name."""
    packets = {name.split(".")[1] for name in all_rules()}
    return bool({op.name.rpartition(".")[2], op.aten_name} & packets)


def cases(
    name: str, op: OpInfo, *, samples: int, others: int, dtypes: Sequence[torch.dtype] = DTYPES
) -> Iterator[Case]:
    """Give the cases of an operator that eager runs, with the same result each time and its inputs unchanged.

    Args:
        name: full name.
        op: PyTorch's row.
        samples: of float32, each in all layouts.
        others: of each other element type, each in one layout.
        dtypes: only these.
    """
    if op.name in RANDOM:
        return
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        is_main = dtype is torch.float32
        for i, sample in enumerate(_some(op, dtype, samples if is_main else others)):
            for layout in LAYOUTS if is_main else (LAYOUTS[i % len(LAYOUTS)],):
                yield from _of_sample(name, op, dtype, layout, sample)


def _some(op: OpInfo, dtype: torch.dtype, count: int) -> list[Any]:
    """Give so many samples, spread over all that there are."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = list(op.sample_inputs("cpu", dtype, requires_grad=False))
        except Exception:
            return []
    return [found[i * len(found) // count] for i in range(count)] if len(found) > count else found


def _of_sample(name: str, op: OpInfo, dtype: torch.dtype, layout: str, sample: Any) -> Iterator[Case]:
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = tuple(laid_out(leaves[i], layout) for i in places)
    if any(one.layout is not torch.strided or one.numel() > LARGEST for one in tensors):
        return
    if any(one.dtype not in DTYPES for one in tensors):
        return

    def function(*given: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, given, strict=True):
            filled[place] = tensor
        first, args, named = pytree.tree_unflatten(filled, spec)
        return [in_parts(leaf) for leaf in pytree.tree_leaves(op(first, *args, **named))]

    wanted = eager(function, tensors)
    if wanted is None:
        return
    label = str(dtype).removeprefix("torch.")
    yield Case(name, label, layout, function, tensors, 0, wanted)
    if len(tensors) > 1 and op.name.rpartition(".")[2] in WEIGHTS:
        yield Case(name, label, layout, function, tensors, len(tensors) - 1, wanted)


def in_parts(leaf: Any) -> Any:
    """Give what can be an output of a blob: of complex numbers their parts."""
    is_complex = isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.is_complex()
    return torch.view_as_real(leaf.resolve_conj()) if is_complex else leaf


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Give the same elements in another layout."""
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor
    strides = [1] * tensor.dim()
    order = range(tensor.dim()) if layout == "reversed" else reversed(range(tensor.dim()))
    step = 2 if layout == "gaps" else 1
    for i in order:
        strides[i] = step
        step *= max(tensor.shape[i], 1)
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor.detach())


def eager(function: Callable[..., Any], tensors: tuple[torch.Tensor, ...]) -> tuple[Any, ...] | None:
    """Give what eager gives; None where it fails, depends on chance, or changes what it is given."""
    results = []
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for seed in SEEDS:
            torch.manual_seed(seed)
            given = [torch.empty_strided(one.shape, one.stride(), dtype=one.dtype).copy_(one) for one in tensors]
            try:
                with patch.object(torch, "manual_seed", lambda _: None):  # some samples set a seed of their own
                    leaves = pytree.tree_leaves(function(*given))
            except Exception:
                return None
            if not all(same(a, b) for a, b in zip(given, tensors, strict=True)):
                return None
            results.append(tuple(one.clone() if isinstance(one, torch.Tensor) else one for one in leaves))
    first, *others = results
    for second in others:
        if len(first) != len(second) or not all(same(a, b) for a, b in zip(first, second, strict=True)):
            return None
    return first if any(isinstance(one, torch.Tensor) for one in first) else None


def same(first: Any, second: Any) -> bool:
    """Say whether two leaves are equal, NaN to NaN."""
    if not isinstance(first, torch.Tensor):
        return bool(first == second)
    if first.layout is not torch.strided or first.dtype is not second.dtype or first.shape != second.shape:
        return False
    return torch.equal(first, second) or bool(torch.allclose(first, second, rtol=0, atol=0, equal_nan=True))
