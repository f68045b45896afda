"""Layout: inputs, weights and constants of a program in row-major order, because compilers bake strides in."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def row_major(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Lay tensors out in row-major order; dimensions of extent 1 get their canonical stride, too."""
    import torch
    from torch.utils import _pytree

    def lay_out(leaf: Any) -> Any:
        return leaf.clone(memory_format=torch.contiguous_format) if isinstance(leaf, torch.Tensor) else leaf

    laid_out: tuple[Any, ...] = _pytree.tree_map(lay_out, tuple(inputs))
    return laid_out


def laid_out(program: ExportedProgram) -> ExportedProgram:
    """Return a program whose example inputs, weights and constants lie in row-major order; itself if all do.

    Another one is to be traced again, as its graph still has the old strides.
    """
    import torch

    found: dict[int, Any] = {}

    def lay_out(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_contiguous():
            return tensor
        if id(tensor) not in found:
            made = tensor.detach().clone(memory_format=torch.contiguous_format)
            is_parameter = isinstance(tensor, torch.nn.Parameter)
            found[id(tensor)] = torch.nn.Parameter(made, tensor.requires_grad) if is_parameter else made
        return found[id(tensor)]

    state = {name: lay_out(tensor) for name, tensor in program.state_dict.items()}
    constants = {name: lay_out(value) for name, value in program.constants.items()}
    examples = _with_other_strides(program)
    if not found and examples is None:
        return program
    changed = copy.copy(program)
    changed._state_dict, changed._constants = state, constants  # noqa: SLF001  torch offers no other way
    changed.example_inputs = examples or program.example_inputs
    return changed


def _with_other_strides(program: ExportedProgram) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """Return the example inputs in row-major order; None where they lie so, or there are none."""
    import torch
    from torch.utils import _pytree

    if program.example_inputs is None:
        return None
    made = row_major(program.example_inputs)
    pairs = zip(_pytree.tree_leaves(program.example_inputs), _pytree.tree_leaves(made), strict=True)
    if all(not isinstance(given, torch.Tensor) or given.stride() == one.stride() for given, one in pairs):
        return None
    args, kwargs = made
    return tuple(args), dict(kwargs)
