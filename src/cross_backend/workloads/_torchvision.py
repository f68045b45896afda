"""torchvision beside a CPU-only torch: its compiled operators do not load there, so two schemas stand in for them.

The package index's torchvision is built against CUDA torch. Beside CPU torch its ``_C`` library fails to load
and ``import torchvision`` then dies on the missing operator ``torchvision::nms``, as does whatever imports it.
Models and transforms do not use it: declaring the schemas is enough. Where the compiled operators do load, nothing
is declared.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
from pathlib import Path
from types import ModuleType
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_keep: list[Any] = []  # the operator library is undefined again when it is collected


@functools.cache
def make_importable() -> None:
    """Declare the operator schemas where torchvision is installed and its compiled operators do not load."""
    import torch

    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return
    folder = Path(spec.origin).parent
    compiled = [*folder.glob("_C*.so"), *folder.glob("_C*.pyd"), *folder.glob("_C*.dylib")]
    try:
        for library in compiled:
            torch.ops.load_library(str(library))
    except OSError:
        pass
    if not hasattr(torch.ops.torchvision, "nms"):
        library_of_schemas = torch.library.Library("torchvision", "DEF")
        for schema in _SCHEMAS:
            library_of_schemas.define(schema)
        _keep.append(library_of_schemas)
        logging.getLogger(__name__).info(
            "torchvision's compiled operators do not load here; declared nms and qnms without code."
        )


def torchvision_models() -> ModuleType:
    """Import ``torchvision.models``."""
    make_importable()
    import torchvision.models

    return torchvision.models  # type: ignore[no-any-return]
