"""Object detectors of ultralytics, with seeded random weights or real ones; the package is AGPL-3.0."""

from __future__ import annotations

from pathlib import Path

from cross_backend.errors import CaptureError, one_line
from cross_backend.workloads import Workload
from cross_backend.workloads._torchvision import torchvision_models
from cross_backend.workloads.vision import settle_batch_norm

SEED = 0
SIZE = 640
CALIBRATION = 4
"""Random images that quantisers observe."""


def yolo(name: str, weights: str | None = None) -> Workload:
    """Build a YOLO detector by its name there; input (1, 3, 640, 640), output (1, 84, 8400) boxes and class scores.

    Args:
        name: ``yolo11n``, ``yolov8n``, …
        weights: None for seeded random ones, or a checkpoint of ultralytics, ``yolo11n.pt``.
    """
    import torch

    torchvision_models()  # ultralytics imports it
    from ultralytics.nn.tasks import DetectionModel, load_checkpoint

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        if weights is None:
            model = DetectionModel(f"{name}.yaml", verbose=False)
            settle_batch_norm(model, (3, SIZE, SIZE))
        elif not Path(weights).is_file():
            raise CaptureError(f"weights {weights} do not exist; give a checkpoint file such as {name}.pt.")
        else:
            try:
                model, _ = load_checkpoint(weights)
            except Exception as error:
                raise CaptureError(f"weights {weights} do not fit: {one_line(error)}") from error
        head = model.model[-1]
        head.export, head.format = True, "torchscript"  # one tensor of boxes and scores, no training outputs
        images = [(torch.rand(1, 3, SIZE, SIZE),) for _ in range(1 + CALIBRATION)]
        labels = tuple(model.names[index] for index in sorted(model.names))
        return Workload(name, model.float().eval(), images[0], tuple(images[1:]), labels=labels)
