"""The tiny seeded modules that every backend lowers, each with two sets of inputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from cross_backend.tensors import to_numpy
from cross_backend.workloads import decoder
from cross_backend.workloads.decoder import Shape


@dataclass(frozen=True)
class Model:
    """A module and inputs that differ."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]
    others: tuple[torch.Tensor, ...]
    """A second set of inputs of the same shapes."""
    dynamic_shapes: Any = None
    call: Callable[..., tuple[tuple[Any, ...], dict[str, Any]]] = lambda *flat: (flat, {})
    """Flat inputs → what the module itself takes: arguments, and arguments by name."""

    step: Callable[[int], tuple[torch.Tensor, ...]] = lambda _: ()
    """Number of a call, from 0 → its inputs, of a model that remembers."""

    def fresh(self) -> nn.Module:
        """Give a copy of the module in its initial state."""
        return copy.deepcopy(self.module)

    def expected(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Give what eager float32 gives."""
        args, kwargs = self.call(*(x.clone() for x in inputs))
        with torch.no_grad():
            return tensors_of(self.module(*args, **kwargs))


class Scores(NamedTuple):
    """What ``multi`` gives first."""

    raw: torch.Tensor
    label: torch.Tensor


class _Multi(nn.Module):
    """A dict of floats, and token ids in a tuple by name; a dict of a named tuple, None and a list out."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.features, self.head = nn.Embedding(11, 8), nn.Linear(3, 8), nn.Linear(8, 5)

    def forward(
        self, batch: dict[str, torch.Tensor], scale: float = 1.0, *, tokens: tuple[torch.Tensor, int]
    ) -> dict[str, Any]:
        scores = self.head(self.features(batch["x"]) + self.tokens(tokens[0]).mean(dim=tokens[1]))
        return {"scores": Scores(scores, scores.argmax(dim=1)), "more": None, "scaled": [scores * scale]}


def _call_multi(x: torch.Tensor, ids: torch.Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return ({"x": x}, 2.0), {"tokens": (ids, 1)}


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
    return Model(_Multi(), (torch.randn(2, 3), ids[0]), (torch.randn(2, 3), ids[1]), call=_call_multi)


def _corners() -> Model:
    first, second = torch.randn(2, 2, 4)
    return Model(_Corners(), (first, torch.randn(3), torch.tensor(3.0)), (second, torch.randn(3), torch.tensor(-0.5)))


BOUND = 6
"""Largest batch of the dynamic model."""


def _dynamic() -> Model:
    module = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))
    batch = torch.export.Dim("batch", min=1, max=BOUND)
    return Model(module, (torch.randn(3, 6),), (torch.randn(BOUND, 6),), ({0: batch},))


class _Counter(nn.Module):
    """Counts its calls."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.linear(x) + self.calls  # type: ignore[no-any-return]


def _counter() -> Model:
    inputs, others = torch.randn(2, 2, 4)
    return Model(_Counter(), (inputs,), (others,), step=lambda index: (others if index % 2 else inputs,))


class _Ring(nn.Module):
    """Attends over the last three rows; it begins with rows that are not zero."""

    rows: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.randn(1, 3, 8))
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows.copy_(torch.cat([self.rows[:, 1:], x], 1))
        weights = torch.matmul(self.linear(x), self.rows.transpose(1, 2)).softmax(-1)
        return torch.matmul(weights, self.rows)


def _ring() -> Model:
    rows = torch.randn(6, 1, 1, 8)
    return Model(_Ring(), (rows[0],), (rows[1],), step=lambda index: (rows[index],))


def _decoder() -> Model:
    shape = Shape(2, 32, 4, 2, 64, 97, 16, "llama", 0)
    ids = torch.randint(0, 97, (6, 1, 1))
    calls = [(ids[index], torch.tensor([index])) for index in range(6)]
    return Model(decoder.build(shape), calls[0], calls[1], step=calls.__getitem__)


_MODELS: dict[str, Callable[[], Model]] = {
    "cnn": _cnn,
    "corners": _corners,
    "counter": _counter,
    "decoder": _decoder,
    "dynamic": _dynamic,
    "mlp": _mlp,
    "multi": _multi,
    "ring": _ring,
}


def build(name: str) -> Model:
    """Build a model; always the same one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _MODELS[name]()
    model.module.eval()
    return model


def tensors_of(value: Any) -> list[Any]:
    """Give the tensors inside of any structure, in order."""
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if hasattr(leaf, "shape")]


def assert_right(outputs: Any, expected: Sequence[torch.Tensor], tolerance: float) -> None:
    """Compare what a session gave with eager float32: count, dtype, shape, and every value."""
    given = tensors_of(outputs)
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
