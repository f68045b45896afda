"""torchvision beside a torch for CPUs, where its compiled operators do not load: their schemas stand in for them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from atalla.errors import CompileError

_SCHEMAS = ("nms", "qnms")
_keep: list[Any] = []
"""Operator libraries, which end when they are collected."""


@functools.cache
def make_importable() -> None:
    """Declare the operators that ``import torchvision`` looks for, where it is installed and does not bring them.

    The package index's torchvision is built for CUDA; beside a torch for CPUs its library of operators does not load,
    and the import fails for want of their schemas, also in a user's file or in a package like timm. Classifiers call
    none of them, so their schemas are enough.
    """
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


def torchvision_models() -> ModuleType:
    """Import ``torchvision.models``.

    Raises:
        CompileError: torchvision is not installed.
    """
    if importlib.util.find_spec("torchvision") is None:
        raise CompileError("this model needs torchvision: pip install 'cross-backend[vision]'")
    make_importable()
    return importlib.import_module("torchvision.models")
