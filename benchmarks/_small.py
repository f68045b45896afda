"""A network whose call takes about a millisecond, so that sixty comparisons fit into an hour."""

from __future__ import annotations

import torch

from cross_backend.workloads._torchvision import torchvision_models
from cross_backend.workloads.vision import settle_batch_norm

SIZE = 64


def mobilenet() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """MobileNetV3 (small) on images of 64 × 64 pixels."""
    torch.manual_seed(0)
    model = torchvision_models().get_model("mobilenet_v3_small", weights=None)
    settle_batch_norm(model, torch.randn(16, 3, SIZE, SIZE))
    return model.eval(), (torch.randn(1, 3, SIZE, SIZE),)
