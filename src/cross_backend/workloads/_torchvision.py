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
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_keep: list[Any] = []  # the operator library is undefined again when it is collected


class _Mender(MetaPathFinder):
    """Finds nothing; whoever looks for torchvision finds it importable."""

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
