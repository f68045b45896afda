"""Object detectors of ultralytics, with seeded random weights or real ones; the package is AGPL-3.0."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from atalla.torchvision import settle_batch_norm, torchvision_models
from cross_backend.errors import CaptureError, UnavailableError, failing_as, one_line
from cross_backend.workloads import Workload
from cross_backend.workloads.media import BoxesMedia

SEED = 0
SIZE = 640
CALIBRATION = 4
"""Random images that quantisers observe."""
_STATISTICS_BATCH = 8
_OFFLINE = {
    "ULTRALYTICS_SAFE_LOAD": "true",  # a checkpoint holds tensors and known classes, never code to run
    "YOLO_AUTOINSTALL": "false",
    "YOLO_OFFLINE": "true",
    "YOLO_VERBOSE": "false",
}
"""What ultralytics reads while it is imported."""


def yolo(name: str, weights: str | None = None) -> Workload:
    """Build a YOLO detector by its name there; input (1, 3, 640, 640), output (1, 84, 8400) boxes and class scores.

    Args:
        name: ``yolo11n``, ``yolov8n``, …
        weights: None for seeded random ones, or a checkpoint of ultralytics, ``yolo11n.pt``.

    Raises:
        UnavailableError: ultralytics does not import.
        CaptureError: the weights are not there, or not such a checkpoint.
    """
    import torch

    ultralytics = _import_ultralytics(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = _random(ultralytics, name) if weights is None else _trained(ultralytics, weights)
        head = model.model[-1]
        head.export, head.format = True, "torchscript"  # one tensor of boxes and scores, no training outputs
        images = [(torch.rand(1, 3, SIZE, SIZE),) for _ in range(1 + CALIBRATION)]
    with torch.no_grad():
        model.float().eval()(*images[0])  # the head computes its anchors in the first run and keeps them
    labels = tuple(model.names[index] for index in sorted(model.names))
    media = BoxesMedia(size=SIZE, labels=labels, trained=weights is not None)
    return Workload(name, model, images[0], tuple(images[1:]), labels=labels, media=media)


def _random(ultralytics: Any, name: str) -> Any:
    """Build with seeded weights, class scores around one half: those of an untrained head are too near 0 to compare."""
    import torch

    model = ultralytics.nn.tasks.DetectionModel(f"{name}.yaml", verbose=False)
    settle_batch_norm(model, torch.rand(_STATISTICS_BATCH, 3, SIZE, SIZE))
    for branch in model.model[-1].cv3:
        torch.nn.init.zeros_(branch[-1].bias)
    model.names = ultralytics.utils.YAML.load(ultralytics.utils.ROOT / "cfg" / "datasets" / "coco.yaml")["names"]
    return model


def _trained(ultralytics: Any, weights: str) -> Any:
    path = Path(weights).resolve()  # by a bare name ultralytics would download it
    if not path.is_file():
        raise CaptureError(f"weights {weights} do not exist; give a checkpoint file such as yolo11n.pt.")
    with failing_as(CaptureError, f"weights {weights} do not fit"):
        return ultralytics.nn.tasks.load_checkpoint(path)[0]


def _import_ultralytics(name: str) -> Any:
    torchvision_models()  # ultralytics imports it
    try:
        with _guest():
            import ultralytics.nn.tasks
    except ImportError as error:
        remedy = "pip install 'cross-backend[yolo]'"
        raise UnavailableError(f"{name} needs ultralytics, which fails here: {one_line(error)}", remedy) from error
    return ultralytics


@contextmanager
def _guest() -> Iterator[None]:
    """Keep ultralytics from the network, from pip and from writing settings into the user's home.

    It sets variables of its own, such as one thread for OpenMP; all are as before afterwards.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(_OFFLINE, YOLO_CONFIG_DIR=folder)
        try:
            yield
        finally:
            for key in set(os.environ) - set(before):
                del os.environ[key]
            os.environ.update(before)
