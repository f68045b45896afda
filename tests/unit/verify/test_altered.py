"""Programs that are nearly right: none passes for the one that was captured; other orders of its sums do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cross_backend.program.writing import write_capture
from cross_backend.records import Comparison, Outcome
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import compare_outputs
from cross_backend.workloads import Workload

MASKED = -1e9


class Attention(nn.Module):
    """A block with a causal mask, whose scores are an output as well."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(16, 16) for _ in range(4))
        self.masked = True

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.q(x) @ self.k(x).transpose(-1, -2)
        if self.masked:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), MASKED)
        return self.out(scores.softmax(-1) @ self.v(x)), scores


class Logits(nn.Module):
    """A vocabulary of which one word is forbidden."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(32, 16), nn.Linear(16, 64)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.embedding(tokens).mean(1))
        return logits + torch.nn.functional.one_hot(torch.tensor(3), 64) * MASKED


class Waves(nn.Module):
    """Complex numbers inside and out."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(33, 20)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        real = self.linear(torch.fft.rfft(x).abs())
        return torch.complex(real, torch.roll(real, 1, -1))


def images() -> nn.Module:
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU())
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(32, 10))


def deep() -> nn.Module:
    return nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(24, 24), nn.Tanh())))


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "attention": (Attention, lambda: torch.randn(2, 8, 16)),
    "logits": (Logits, lambda: torch.randint(0, 32, (2, 6))),
    "waves": (Waves, lambda: torch.randn(3, 64)),
    "images": (images, lambda: torch.rand(2, 3, 12, 12)),
    "deep": (deep, lambda: torch.randn(4, 24)),
}


def weights(module: nn.Module) -> list[nn.Parameter]:
    return [p for p in module.parameters() if p.ndim > 1]


def other_weights(module: nn.Module) -> None:
    for p in module.parameters():
        nn.init.normal_(p, std=float(p.std()) or 0.1)


def one_channel(module: nn.Module) -> None:
    weights(module)[-1].data[0] *= 1.01


def one_bias(module: nn.Module) -> None:
    biases = [p for p in module.parameters() if p.ndim == 1]
    biases[-1].data[0] += 0.01


def one_weight(module: nn.Module) -> None:
    weights(module)[-1].data.view(-1)[0] += 0.05


def transposed(module: nn.Module) -> None:
    p = weights(module)[0]
    p.data = p.data.transpose(-1, -2).reshape(p.shape).contiguous()


def swapped_channels(module: nn.Module) -> None:
    p = weights(module)[-1]
    p.data = p.data.flip(0)


def first_layer_off(module: nn.Module) -> None:
    weights(module)[0].data *= 1.002


ALTERED = (other_weights, one_channel, one_bias, one_weight, transposed, swapped_channels, first_layer_off)


@pytest.fixture(scope="module", params=MODELS)
def captured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[nn.Module, dict[str, Any]]:
    make, inputs = MODELS[request.param]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module, x = make().eval(), inputs()
    folder: Path = tmp_path_factory.mktemp("altered")
    return module, load_tensors(write_capture(Workload("net", module, (x,)), folder).sample_path)


def outputs(module: nn.Module, x: np.ndarray[Any, Any]) -> list[Any]:
    with torch.no_grad():
        return [y.numpy() for y in torch.utils._pytree.tree_leaves(module(torch.from_numpy(x.copy())))]


def judged(sample: dict[str, Any], module: nn.Module) -> Comparison:
    return compare_outputs(sample, [outputs(module, sample[group][0]) for group in ("input", "input2")])


@pytest.mark.parametrize("alter", ALTERED, ids=[alter.__name__ for alter in ALTERED])
def test_none_passes(captured: tuple[nn.Module, dict[str, Any]], alter: Callable[[nn.Module], None]) -> None:
    module, sample = captured
    altered = copy.deepcopy(module)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(1)
        alter(altered)
    assert judged(sample, altered).outcome is Outcome.MISMATCH


def test_nor_does_what_knows_the_first_answer_only(captured: tuple[nn.Module, dict[str, Any]]) -> None:
    _, sample = captured
    assert compare_outputs(sample, [sample["expected"], sample["expected"]]).outcome is Outcome.MISMATCH
    zeros = [np.zeros_like(y) for y in sample["expected"]]
    assert compare_outputs(sample, [zeros, zeros]).outcome is Outcome.MISMATCH


def test_without_its_mask_it_is_another_program(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Attention().eval(), torch.randn(2, 8, 16)
    sample = load_tensors(write_capture(Workload("net", module, (x,)), tmp_path).sample_path)
    module.masked = False
    assert judged(sample, module).outcome is Outcome.MISMATCH


def test_the_same_program_passes_whatever_its_sums_order(captured: tuple[nn.Module, dict[str, Any]]) -> None:
    """In double precision, and with the terms of every product in another order."""
    module, sample = captured
    assert judged(sample, module).outcome is Outcome.OK
    double = copy.deepcopy(module).double()
    found = []
    for group in ("input", "input2"):
        x = sample[group][0]
        exact = outputs(double, x.astype(np.float64) if x.dtype.kind == "f" else x)
        found.append([y.astype(want.dtype) for y, want in zip(exact, sample["expected"], strict=True)])
    comparison = compare_outputs(sample, found)
    assert comparison.outcome is Outcome.OK
    assert comparison.max_rel < comparison.tolerance / 3, "far from the limit"
