"""Models that cannot be captured say why, in one line."""

from __future__ import annotations

import importlib.util
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.errors import CaptureError
from cross_backend.program.reference import run_eagerly
from tests.unit.program.nets import X, net, store

EIGHT = torch.float8_e5m2
"""A type that neither NumPy nor we have."""


class _Unknown:
    """A class that torch was not told of."""

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


class _Sized(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"y": x + 1, "n": x.shape[0]}


USER_NET = """import torch


class Wrong(torch.nn.Module):
    def forward(self, x):
        weights = torch.ones(3, 3)
        return x @ weights
"""


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda m, x: x.item(), "cannot capture"),
        (lambda m, x: m.linear(x) if x.sum() > 0 else x, "cannot capture"),
        (lambda m, x: x.no_such_method(), "cannot capture"),
        (lambda m, x: m.linear(x) + torch.rand(2, 4), "pure function"),
        (lambda m, x: (None, 3), "returns no tensor"),
        (lambda m, x: (m.linear(x), math.inf), r"output\[1\] cannot be kept: inf"),
        (lambda m, x: {"a": m.linear(x), "b": x.to(EIGHT)}, r"output\['b'\] is float8_e5m2, which NumPy lacks"),
        (lambda m, x: _Unknown(x), "a _Unknown, which torch does not know: leave it out"),
    ],
    ids=["item", "data dependent", "error", "random", "nothing", "infinity", "float8", "unknown class"],
)
def test_what_cannot_be_captured_says_why(function: Callable[..., Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        store(net(function), (X,), tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((X.to(EIGHT),), "input inputs_0 is float8_e5m2, which NumPy lacks; give it a float32 tensor and"),
        (({"a": X.to(EIGHT)},), r"input inputs_0\['a'\] is float8_e5m2"),
        ((_Unknown(X),), "a _Unknown, which torch does not know: leave it out"),
    ],
    ids=["float8", "inside", "unknown class"],
)
def test_what_cannot_be_an_input_is_said_when_the_module_is_captured(inputs: tuple[Any, ...], message: str) -> None:
    with pytest.raises(CaptureError, match=message) as caught:
        xb.capture(net(lambda m, x: x), inputs)
    assert "\n" not in str(caught.value)


def test_a_number_that_the_sizes_decide_is_said_when_the_module_is_captured() -> None:
    rows = torch.export.Dim("rows", max=9)
    with pytest.raises(CaptureError, match=r"output\['n'\] is no tensor but a number that the sizes"):
        xb.capture(_Sized(), (X,), ({0: rows},))


def test_outputs_beside_tensors_are_those_of_the_eager_model(tmp_path: Path) -> None:
    """A number of the capture that another run would not give must not be shipped as the model's."""
    counts = itertools.count()
    with pytest.raises(CaptureError, match="returns other values beside tensors than when it was captured"):
        store(net(lambda m, x: (m.linear(x), next(counts))), (X,), tmp_path)


def test_an_error_names_the_line_of_the_model_that_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "user_net.py").write_text(USER_NET)
    spec = importlib.util.spec_from_file_location("user_net", tmp_path / "user_net.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(CaptureError, match=r"cannot capture Wrong: .*user_net\.py:7: RuntimeError: "):
        xb.capture(module.Wrong(), (X,))
    with pytest.raises(CaptureError, match=r"fails on its own example inputs: .*user_net\.py:7: RuntimeError: mat1"):
        run_eagerly(module.Wrong(), (X,))
