"""Foreign operators: those that a ``.pt2`` file calls and torch alone does not have."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import zipfile
from pathlib import Path
from typing import IO

from atalla.files.archive import DAMAGE
from atalla.torchvision import make_importable
from cross_backend.errors import CaptureError

_CALL = re.compile(rb"\btorch\.ops\.(\w+)\.(\w+)")
_MAX_BYTES = 256 << 20
"""Longest graph that is looked through."""


def define_operators(file: IO[bytes], path: Path) -> bool:
    """Import what defines the operators that a file calls which could not be read; say whether to read it again.

    They are torchvision's, and torch's and torchao's own of quantised programs.

    Args:
        file: a ``.pt2`` file, open for reading.
        path: where it lies, for the reader.

    Raises:
        CaptureError: the file calls an operator that nothing here defines.
    """
    called = _called(file)
    before = _missing(called)
    if any(name.startswith("torchvision::") for name in before) and importlib.util.find_spec("torchvision"):
        make_importable()
        importlib.import_module("torchvision")
    if any(name.startswith("quantized_decomposed::") for name in before):
        importlib.import_module("torch.ao.quantization.fx._decomposed")
    if any(name.startswith("torchao::") for name in before) and importlib.util.find_spec("torchao"):
        importlib.import_module("torchao.quantization.quant_primitives")
    missing = _missing(called)
    if missing:
        raise CaptureError(
            f"{path} calls the operator {missing[0]}, which torch does not have here: install the package that brings "
            "it, and give the model as file.py:function with a file that imports that package."
        )
    return missing != before


def _called(file: IO[bytes]) -> set[tuple[str, str]]:
    """Return namespace and name of every operator that an archive's graphs call; of none where it is no archive."""
    found: set[tuple[str, str]] = set()
    with contextlib.suppress(OSError, *DAMAGE), zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".json") and info.file_size <= _MAX_BYTES:
                found |= {(space.decode(), name.decode()) for space, name in _CALL.findall(archive.read(info))}
    return found


def _missing(called: set[tuple[str, str]]) -> list[str]:
    import torch

    return sorted(f"{space}::{name}" for space, name in called if not hasattr(getattr(torch.ops, space), name))
