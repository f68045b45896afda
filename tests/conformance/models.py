"""The tiny seeded modules that every backend lowers, each with two sets of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from cross_backend.tensors import to_numpy


@dataclass(frozen=True)
class Model:
    """A module and inputs that differ."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    others: tuple[torch.Tensor, ...]
    """A second set of inputs of the same shapes."""
    dynamic_shapes: Any = None

    def expected(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Give what eager float32 gives."""
        with torch.no_grad():
            return torch.utils._pytree.tree_leaves(self.module(*(x.clone() for x in inputs)))


class _Multi(nn.Module):
    """Floats and token ids in; a dict of scores and an integer label out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.features, self.head = nn.Embedding(11, 8), nn.Linear(3, 8), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.head(self.features(x) + self.tokens(ids).mean(dim=1))
        return {"scores": scores, "label": scores.argmax(dim=1)}


class _Corners(nn.Module):
    """An input without dimensions and one that nothing reads; a boolean among the outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, unread: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.linear(x) * scale
        return y, y > 0


def _cnn() -> Model:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    module = nn.Sequential(*layers, nn.Linear(8 * 4 * 4, 10))
    return Model(module, (torch.randn(2, 3, 8, 8),), (torch.randn(2, 3, 8, 8),))


def _mlp() -> Model:
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    return Model(module, (torch.randn(2, 6),), (torch.randn(2, 6),))


def _multi() -> Model:
    ids = torch.randint(0, 11, (2, 2, 4))
    return Model(_Multi(), (torch.randn(2, 3), ids[0]), (torch.randn(2, 3), ids[1]))


def _corners() -> Model:
    first, second = torch.randn(2, 2, 4)
    return Model(_Corners(), (first, torch.randn(3), torch.tensor(3.0)), (second, torch.randn(3), torch.tensor(-0.5)))


BOUND = 6
"""Largest batch of the dynamic model."""


def _dynamic() -> Model:
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    batch = torch.export.Dim("batch", min=1, max=BOUND)
    return Model(module, (torch.randn(3, 6),), (torch.randn(BOUND, 6),), ({0: batch},))


_MODELS: dict[str, Callable[[], Model]] = {
    "cnn": _cnn,
    "corners": _corners,
    "dynamic": _dynamic,
    "mlp": _mlp,
    "multi": _multi,
}


def build(name: str) -> Model:
    """Build a model; always the same one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _MODELS[name]()
    model.module.eval()
    return model


def assert_right(outputs: Any, expected: Sequence[torch.Tensor], tolerance: float) -> None:
    """Compare what a session gave with eager float32: count, dtype, shape, and every value."""
    given = outputs if isinstance(outputs, tuple | list) else (outputs,)
    assert len(given) == len(expected)
    for got, want in zip(given, expected, strict=True):
        array = to_numpy(got)
        reference = want.numpy()
        assert (array.dtype, array.shape) == (reference.dtype, reference.shape)
        if reference.dtype.kind == "f":
            assert np.abs(reference).max() > 1e-2, "a reference near zero proves nothing"
            assert np.abs(array - reference).max() <= tolerance * np.abs(reference).max()
        else:
            np.testing.assert_array_equal(array, reference)
