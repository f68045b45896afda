"""Small modules of any function, captured and stored; and whether what is stored agrees with itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cross_backend.program.captured import Captured
from cross_backend.program.reference import run_eagerly
from cross_backend.program.writing import write_capture
from cross_backend.tensors import check_inputs, from_numpy, load_tensors, to_numpy
from cross_backend.workloads import Workload


class _Call(nn.Module):
    """Any function as a module with weights."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function, self.linear = function, nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


def net(function: Callable[..., Any] = lambda m, x: m.linear(x), seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return _Call(function).eval()


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def store(module: nn.Module, inputs: tuple[Any, ...], folder: Path, **more: Any) -> Captured:
    folder.mkdir(parents=True, exist_ok=True)
    return write_capture(Workload("net", module, inputs, **more), folder)


def assert_consistent(captured: Captured) -> None:
    """The stored program gives the stored outputs for the stored inputs, and all fit the stored specifications."""
    sample = load_tensors(captured.sample_path)
    check_inputs(captured.inputs, sample["input"])
    program = captured.program()
    leaves = [from_numpy(x) for x in sample["input"]]
    args, _ = torch.utils._pytree.tree_unflatten(leaves, program.call_spec.in_spec)
    outputs = run_eagerly(program.module(), args)
    assert len(outputs) == len(captured.outputs) == len(sample["expected"])
    for spec, got, want in zip(captured.outputs, outputs, sample["expected"], strict=True):
        assert spec.accepts(got)
        given = to_numpy(got)
        assert given.dtype == want.dtype
        np.testing.assert_allclose(given.astype(np.float64), want.astype(np.float64), rtol=1e-5)
