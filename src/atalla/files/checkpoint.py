"""Checkpoints of ``torch.save``: a state dict, read without running code of its pickle."""

from __future__ import annotations

from typing import IO, Any

from atalla.files.archive import check_stored


def read_state(file: IO[bytes]) -> dict[str, Any]:
    """Return the tensors of a checkpoint by name; those below ``state_dict``, where it has that.

    Args:
        file: open for reading, seekable.

    Raises:
        Exception: it cannot be read, or holds something else; in torch's words or in ours.
    """
    import torch

    check_stored(file)
    state = torch.load(file, map_location="cpu", weights_only=True)
    found = state.get("state_dict", state) if isinstance(state, dict) else state
    if not isinstance(found, dict):
        raise TypeError("it holds no tensors by name")
    return found
