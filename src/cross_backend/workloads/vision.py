"""ImageNet classifiers of torchvision, with seeded random weights or real ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.errors import CaptureError, one_line
from cross_backend.workloads import Workload, load_checkpoint
from cross_backend.workloads._torchvision import torchvision_models

if TYPE_CHECKING:
    import torch

SEED = 0
CALIBRATION = 8
"""Random images that quantisers observe."""
_STATISTICS_BATCH = 8


def classifier(name: str, weights: str | None = None) -> Workload:
    """Build one of torchvision's by its name there; input (1, 3, 224, 224), output (1, 1000) logits.

    Args:
        name: ``mobilenet_v2``, ``resnet50``, …
        weights: None for seeded random ones, a checkpoint file, or a published name such as ``IMAGENET1K_V1``.
    """
    import torch

    models = torchvision_models()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        published = None if weights is None or Path(weights).is_file() else weights
        try:
            model = models.get_model(name, weights=published)
        except Exception as error:
            raise CaptureError(f"torchvision has no weights {weights!r} for {name} here: {one_line(error)}") from error
        if weights is None:
            settle_batch_norm(model, torch.randn(_STATISTICS_BATCH, 3, 224, 224))
        elif published is None:
            load_checkpoint(model, weights)
        sample = (torch.randn(1, 3, 224, 224),)
        calibration = tuple((torch.randn(1, 3, 224, 224),) for _ in range(CALIBRATION))
        labels = tuple(next(iter(models.get_model_weights(name))).meta["categories"])
        return Workload(name, model.eval(), sample, calibration, labels=labels)


def settle_batch_norm(model: torch.nn.Module, images: torch.Tensor) -> None:
    """Give BatchNorm the statistics of a batch of random images, so that activations stay near unit scale.

    With their initial statistics the logits of a random MobileNetV3 are near 1e-9, and comparing them proves nothing.
    """
    import torch

    norms = [m for m in model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    momenta = [m.momentum for m in norms]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        model.train()(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
