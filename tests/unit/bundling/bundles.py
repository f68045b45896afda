"""What the tests of bundles share: names in the bundle that they are made for, and ways to look at it and change it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cross_backend.remembered import Measured

Change = Callable[[dict[str, Any]], object]
NULL, TORCH, OPENVINO = "typed_null", "typed_torch", "typed_openvino"
LABELS = ("cat", "großer Hund", "")
MEASURED = Measured(2, 0.5, 0.4, 0.6, 1, "0123456789abcdef", "A processor")


class Typed(torch.nn.Module):
    """Two inputs, and outputs of many types and ranks."""

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        chosen = x[rows]
        return chosen.transpose(0, 1), (chosen * 10).to(torch.int64), chosen > 0, chosen.double().sum()


Write = Callable[..., Path]


def manifest(bundle: Path) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((bundle / "manifest.json").read_bytes())
    return row


def edit(bundle: Path, change: Change) -> None:
    row = manifest(bundle)
    change(row)
    (bundle / "manifest.json").write_text(json.dumps(row))


def sha256(path: Path) -> str:
    """Give the digest that the page defines: of a file, or of the lines that list a folder's files."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    files = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
    return hashlib.sha256("".join(f"{name}\0{sha256(path / name)}\n" for name in files).encode()).hexdigest()


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def zip_of(files: dict[str, bytes | str], path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path
