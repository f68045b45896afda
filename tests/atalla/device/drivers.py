"""The driver in C of tiles and of pairs, and what it reads."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import torch

from atalla.blob.reader import parse
from atalla.dtypes import torch_dtype_of

DRIVER = Path(__file__).with_name("csrc") / "check_tiles.c"
FAST: tuple[str, ...] = ()
"""Flags of its usual build."""


def write_program(path: Path, blob: bytes, inputs: Sequence[torch.Tensor]) -> None:
    """Write a blob and its inputs, as they lie, each behind its size."""
    listing = parse(blob)
    parts = [blob]
    for number, value in zip(listing.inputs, inputs, strict=True):
        row = listing.tensors[number]
        flat = torch.zeros(row.bytes // row.dtype.size, dtype=torch_dtype_of(row.dtype))
        if flat.numel():
            flat.as_strided(row.shape, row.strides).copy_(value)
        parts.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    path.write_bytes(b"".join(struct.pack("<Q", len(part)) + part for part in parts))
