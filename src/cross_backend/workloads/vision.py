"""ImageNet classifiers of torchvision at their own resolutions, with seeded random weights or real ones."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from atalla.torchvision import fill_zero_layers, settle_batch_norm, torchvision_models
from cross_backend.errors import CaptureError, UsageError, failing_as, unknown_name
from cross_backend.workloads import Workload, load_checkpoint
from cross_backend.workloads.media import ImageMedia

SEED = 0
SIZE = 224
SIZES = {
    "efficientnet_b1": 240,
    "efficientnet_b2": 288,
    "efficientnet_b3": 300,
    "efficientnet_b4": 380,
    "efficientnet_b5": 456,
    "efficientnet_b6": 528,
    "efficientnet_b7": 600,
}
"""Pixels a side of those that take no 224×224, as torchvision's published weights were evaluated."""
CALIBRATION = 8
"""Random images that quantisers observe."""
_STATISTICS_BATCH = 8
"""Images of 224×224 that BatchNorm's statistics come from; fewer of larger ones hold as many pixels."""


def classifier(name: str, weights: str | None = None) -> Workload:
    """Build one of torchvision's by its name there; input (1, 3, size, size), output (1, 1000) logits.

    Args:
        name: ``mobilenet_v2``, ``resnet50``, …
        weights: None for seeded random ones, a checkpoint file, or a published name such as ``IMAGENET1K_V1``.
    """
    import torch

    models = torchvision_models()
    size = SIZES.get(name, SIZE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        published = None if weights is None or Path(weights).is_file() else weights
        if published is not None:
            _check_published(name, published, models.get_model_weights(name).__members__)
        with failing_as(CaptureError, f"torchvision has no weights {weights!r} for {name} here"):
            model = models.get_model(name, weights=published)
        if weights is None:
            settle_batch_norm(model, torch.randn(max(2, _STATISTICS_BATCH * SIZE**2 // size**2), 3, size, size))
            fill_zero_layers(model)
        elif published is None:
            load_checkpoint(model, weights)
        sample = (torch.randn(1, 3, size, size),)
        calibration = tuple((torch.randn(1, 3, size, size),) for _ in range(CALIBRATION))
        described = models.get_model_weights(name)
        row = described[published.rpartition(".")[2]] if published is not None else next(iter(described))
        labels = tuple(row.meta["categories"])
        media = _media(row.transforms(), labels, size, trained=weights is not None)
        return Workload(name, model.eval(), sample, calibration, labels=labels, media=media)


def _media(preset: Any, labels: tuple[str, ...], size: int, *, trained: bool) -> ImageMedia | None:
    """Return what torchvision does before these weights; None where they were trained for another size."""
    (crop,), (resize,) = preset.crop_size, preset.resize_size
    if crop != size:
        return None
    return ImageMedia(
        crop=crop,
        resize=resize,
        interpolation=preset.interpolation.value,
        mean=tuple(preset.mean),
        std=tuple(preset.std),
        labels=labels,
        trained=trained,
    )


def _check_published(name: str, weights: str, published: Collection[str]) -> None:
    """Refuse weights that are neither a file nor published.

    Raises:
        UsageError: with the names that there are.
    """
    if weights.rpartition(".")[2] not in published:  # torchvision also takes ``ResNet50_Weights.IMAGENET1K_V2``
        raise UsageError(f"{unknown_name(f'weights of {name}:', weights, published)} Your own: a checkpoint file.")
