"""Checkpoint files of torch: a state dict, read without running code of its pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atalla.files.checkpoint import read_state
from cross_backend.errors import CaptureError, failing_as
from cross_backend.foreign_files import open_regular

if TYPE_CHECKING:
    import torch


def load_checkpoint(module: torch.nn.Module, path: str) -> None:
    """Load a state dict from a checkpoint file into a module.

    Raises:
        CaptureError: the file cannot be read, or its tensors are not this model's.
    """
    if not Path(path).is_file():
        raise CaptureError(f"weights {path} do not exist: no such file, and this model has no published ones.")
    with failing_as(CaptureError, f"weights {path} do not fit"):
        module.load_state_dict(read_checkpoint(Path(path)))


def read_checkpoint(path: Path) -> Mapping[str, Any]:
    """Return the state dict in a checkpoint file; ``read_state`` says what it raises."""
    with open_regular(path) as file:
        return read_state(file)
