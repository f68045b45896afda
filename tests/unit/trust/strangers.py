"""Files of strangers: a program of torch.export, rewritten member by member, and a pickle that leaves a trace."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Net(nn.Module):
    """Weights, a branch and a free extent."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return {"y": self.linear(y), "n": x.shape[0] * 2 + x.sum()}


class Spy:
    """What a stranger pickles: unpickling it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def rewritten(source: Path, path: Path, change: Callable[[str, bytes], bytes | None], **more: bytes) -> Path:
    """Copy a ``.pt2`` file member by member; ``more`` are further ones, by their names with ``__`` for a slash."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        root = old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            data = change(name.partition("/")[2], old.read(name))
            if data is not None:
                new.writestr(name, data)
        for name, data in more.items():
            new.writestr(f"{root}/{name.replace('__', '/')}", data)
    return path


def kept(name: str, data: bytes) -> bytes:
    return data
