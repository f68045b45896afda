"""torchvision: importable beside a torch for CPUs, and statistics for its models with random weights.

The package index's torchvision is built for CUDA. Beside a torch for CPUs its library of operators does not load, and
``import torchvision`` fails for want of their schemas, also in a user's file or in a package like timm. Models and
transforms call none of them, so the schemas are enough.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import logging
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_SCHEMAS = ("nms", "qnms")
_keep: list[Any] = []
"""Operator libraries, which end when they are collected."""


class _Mender(MetaPathFinder):
    """Makes torchvision importable when somebody looks for it; finds nothing itself."""

    def find_spec(self, name: str, *_: Sequence[str] | ModuleType | None) -> ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            make_importable()
        return None


def mend_imports() -> None:
    """Make torchvision importable once somebody imports it: a user's file, or a package that it uses."""
    if "torchvision" not in sys.modules and not any(isinstance(finder, _Mender) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Mender())


@functools.cache
def make_importable() -> None:
    """Declare the schemas where torchvision is installed and its compiled operators do not load."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    for library in (*folder.glob("_C*.so"), *folder.glob("_C*.pyd"), *folder.glob("_C*.dylib")):
        with contextlib.suppress(OSError):
            torch.ops.load_library(str(library))
    if hasattr(torch.ops.torchvision, "nms"):
        return
    schemas = torch.library.Library("torchvision", "DEF")
    for name in _SCHEMAS:
        schemas.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _keep.append(schemas)
    logging.getLogger(__name__).info("torchvision's compiled operators do not load here; declared nms and qnms.")


def torchvision_models() -> ModuleType:
    """Import ``torchvision.models``."""
    make_importable()
    return importlib.import_module("torchvision.models")


def settle_batch_norm(model: torch.nn.Module, images: torch.Tensor) -> None:
    """Set BatchNorm's statistics to those of a batch of random images, so that activations stay near unit scale.

    With their initial statistics the logits of a random MobileNetV3 are near 1e-9, and comparing them proves nothing.
    Everything else runs as in inference: no branch is dropped.
    """
    import torch

    norms = [part for part in model.eval().modules() if isinstance(part, torch.nn.BatchNorm2d)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train().momentum = 1.0
    with torch.no_grad():
        model(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.eval().momentum = momentum


def fill_zero_layers(model: torch.nn.Module) -> None:
    """Give linear layers that begin as zeros random weights: all logits of a new vision transformer are 0."""
    from torch import nn

    for part in model.modules():
        if isinstance(part, nn.Linear) and not (part.weight.is_meta or part.weight.any()):
            nn.init.xavier_normal_(part.weight)
