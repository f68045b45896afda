"""Bug shapes: each is planted and named, and none is named where the numbers do not show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cross_backend.localization.bug_shapes import bug_shapes, worst
from cross_backend.localization.torch_whole import TorchWhole
from cross_backend.program.capture import capture
from cross_backend.program.flattening import flatten

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)


def _names(want: Any, got: Any, *rest: Any) -> list[str]:
    return [shape.name for shape in bug_shapes(want, got, *rest)]


def _changed(x: Any, **places: Any) -> Any:
    made = x.copy()
    for at, value in zip(places["at"], places["values"], strict=True):
        made.flat[at] = value
    return made


def _padded(x: Any) -> Any:
    made = np.roll(x, 1, -1)
    made[..., 0] = 0
    return made


def _neighbour(x: Any) -> Any:
    made = x.copy()
    made[..., 3, :] = x[..., 2, :]
    return made


TINY = _changed(X, at=range(8), values=[1e-40] * 8)
PLANTED = {
    "layout swap": (X, X.transpose(0, 2, 3, 1).reshape(X.shape)),
    "axis reversed": (X, X[:, :, ::-1]),
    "padding off by one": (X, _padded(X)),
    "index off by one": (X, _neighbour(X)),
    "saturation": (X, X.clip(-0.7, 0.9)),
    "wrong scale": (X, X * np.float32(0.5)),
    "wrong zero point": (X, X + np.float32(3)),
    "wrong scale and zero point": (X, X * np.float32(2) + np.float32(1)),
    "fp16 overflow": (X * np.float32(1e5), np.where(abs(X * 1e5) > 65504, np.inf, X * 1e5).astype(np.float32)),
    "NaN begins here": (X, _changed(X, at=[5], values=[np.nan])),
    "infinity begins here": (X, _changed(X, at=[5], values=[np.inf])),
    "NaN lost": (_changed(X, at=[5], values=[np.nan]), _changed(X, at=[5], values=[0])),
    "denormals": (TINY, np.where(abs(TINY) < 1e-38, 0, TINY).astype(np.float32)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_named_first(name: str) -> None:
    assert _names(*PLANTED[name])[0] == name


def test_ties_are_named_where_only_halves_differ() -> None:
    x = np.array([[0.5, 1.5, 2.5, 3.3, -0.5, 4.9, 7.5, 8.1]], np.float32)
    up = np.floor(x + 0.5)
    assert "ties" in _names(np.round(x), up, [x])
    assert "ties" not in _names(np.round(x), up + (x > 4), [x])


@pytest.mark.parametrize(
    "got",
    [X, X * np.float32(1 + 1e-6), X + RNG.standard_normal(X.shape).astype(np.float32), np.zeros_like(X)],
    ids=["same", "rounding", "noise", "zeros"],
)
def test_nothing_is_named_where_nothing_shows_it(got: Any) -> None:
    assert _names(X, got) == []


def test_the_elements_that_differ_most_are_shown() -> None:
    assert worst(np.array([1.0, 2.0, 3.0]), np.array([1.0, 9.0, np.nan]), 2)[0] == (3.0, 2.0)


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True)
        return self.linear(x), y, torch.round(x * 2), n // 7, torch.nn.functional.gelu(x)


VARIANTS = {
    "linear": ("transposed weights", lambda net, x, n: x @ net.linear.weight + net.linear.bias),
    "upsample_bilinear2d": (
        "attribute ignored",
        lambda net, x, n: torch.nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False),
    ),
    "round_1": ("ties", lambda net, x, n: torch.floor(x * 2 + 0.5)),
    "floor_divide": ("another rule", lambda net, x, n: torch.div(n, 7, rounding_mode="trunc")),
    "gelu": ("another rule", lambda net, x, n: torch.nn.functional.gelu(x, approximate="tanh")),
}


@pytest.mark.parametrize("node", VARIANTS)
def test_known_faults_of_an_operator_are_computed_and_named(node: str) -> None:
    torch.manual_seed(0)
    net, x, n = _Net(), torch.randint(-9, 9, (1, 2, 8, 8)) / 4.0, torch.arange(-16, 16)
    whole = TorchWhole(flatten(capture(net, (x, n))), [x.numpy(), n.numpy()])
    values = whole.values([x.numpy(), n.numpy()])
    name, fault = VARIANTS[node]
    with torch.no_grad():
        got = fault(net, x, n).numpy()
    unit = next(one for one in whole.units if one[0] == node)
    variants = {words: made[node] for words, made in whole.variants(unit, values)}
    found = bug_shapes(values[node], got, (), variants)
    assert name in [shape.name for shape in found], found
