"""Inputs for backends that take torch tensors."""

from __future__ import annotations

from typing import Any

from cross_backend.tensors import to_numpy


def to_torch(tensor: Any) -> Any:
    """View or copy a tensor as a contiguous torch tensor that no NumPy array shares."""
    import torch

    return tensor.contiguous() if isinstance(tensor, torch.Tensor) else torch.from_numpy(to_numpy(tensor).copy())
