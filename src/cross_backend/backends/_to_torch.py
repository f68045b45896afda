"""Inputs for backends that take torch tensors."""

from __future__ import annotations

from typing import Any

from cross_backend.tensors import from_numpy, to_numpy


def to_torch(tensor: Any) -> Any:
    """Copy a tensor to a torch tensor in row-major layout, which is how programs are captured."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        tensor = from_numpy(to_numpy(tensor))
    return tensor.detach().clone(memory_format=torch.contiguous_format)
