"""Capture: what is stored agrees with itself, whatever goes in, comes out and stays in the model."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.errors import CaptureError, CrossBackendError
from cross_backend.program.captured import Captured
from cross_backend.program.reference import run_eagerly
from cross_backend.program.writing import write_capture
from cross_backend.program.writing import write_program as write
from cross_backend.tensors import load_tensors
from cross_backend.workloads import Task, Workload
from tests.unit.program.nets import X, assert_consistent, net, store

CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "one": (lambda m, x: m.linear(x), (X,)),
    "several": (lambda m, x, y: (m.linear(x), x + y), (X, X + 1)),
    "nested": (lambda m, d, t: {"out": m.linear(d["a"]) + t[0], "in": d["a"]}, ({"a": X}, (X + 1,))),
    "integers": (lambda m, i: (m.linear.weight[i], i + 1), (torch.tensor([1, 3]),)),
    "booleans": (lambda m, x: m.linear(x) > 0, (X,)),
    "scalar": (lambda m, x, s: m.linear(x) * s, (X, torch.tensor(2.0))),
    "nothing": (lambda m, x: m.linear(x)[:0], (X,)),
    "not contiguous": (lambda m, x: m.linear(x), (torch.linspace(-1, 1, 8).reshape(4, 2).T,)),
    "half": (lambda m, x: x * 2, (X.half(),)),
    "bfloat16": (lambda m, x: (m.linear(x.float()).bfloat16(), x * 3), (X.bfloat16(),)),
    "bytes": (lambda m, x: m.linear(x.float() / 255), (torch.arange(4, 12, dtype=torch.uint8).reshape(2, 4) * 20,)),
    "channels last": (
        lambda m, x: m.linear(x.mean((1, 2))),
        (torch.linspace(-1, 1, 72).reshape(2, 3, 3, 4).to(memory_format=torch.channels_last),),
    ),
    "empty": (lambda m, x, past: m.linear(torch.cat([past, x])), (X, X[:0])),
    "in place": (lambda m, x: m.linear(x.add_(1)), (X.clone(),)),
}

MAY_BE_REFUSED = {"in place"}
"""What need not be supported, as long as it is said when the model is captured."""


@pytest.mark.parametrize("case", CASES)
def test_what_is_stored_agrees_with_itself_or_is_refused(case: str, tmp_path: Path) -> None:
    """A wrong sample would make every backend look wrong."""
    function, inputs = CASES[case]
    before = [x.clone() for x in torch.utils._pytree.tree_leaves(inputs)]
    with contextlib.suppress(*([CaptureError] if case in MAY_BE_REFUSED else [])):
        captured = store(net(function), inputs, tmp_path)
        assert_consistent(captured)
        assert Captured.read(tmp_path) == captured
    after = torch.utils._pytree.tree_leaves(inputs)
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True)), "the caller's inputs were changed"


@pytest.mark.parametrize("case", ["one", "nested", "in place"])
def test_a_program_that_the_caller_captured_agrees_with_itself(case: str, tmp_path: Path) -> None:
    function, inputs = CASES[case]
    with contextlib.suppress(*([CaptureError] if case in MAY_BE_REFUSED else [])):
        assert_consistent(write(xb.capture(net(function), inputs), "net", tmp_path))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_programs_of_16_bits_keep_their_probes(dtype: torch.dtype, tmp_path: Path) -> None:
    """Each output is rounded to 11 or 8 bits: that alone is no reason to drop a probe."""
    module = nn.Sequential(nn.Linear(4, 4), nn.GELU()).to(dtype)
    captured = write_capture(Workload("narrow", module, (X.to(dtype),)), tmp_path)
    assert len(captured.proof["probes"]) >= 4, captured.proof
    (rounding,) = load_tensors(captured.sample_path)["rounding"]
    assert torch.finfo(dtype).eps / 8 < float(rounding) < 8 * torch.finfo(dtype).eps


def test_specifications_name_types_shapes_and_free_extents(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    program = xb.capture(nn.Linear(4, 4), (X,), ({0: batch},))
    captured = write(program, "net", tmp_path)
    (given,), (made,) = captured.inputs, captured.outputs
    assert (given.dtype, given.shape[1:], made.shape[1:]) == ("float32", (4,), (4,))
    assert isinstance(given.shape[0], str) and given.shape[0] == made.shape[0]


def test_without_calibration_inputs_the_sample_serves(tmp_path: Path) -> None:
    (inputs,) = store(net(), (X,), tmp_path).calibration()
    np.testing.assert_array_equal(inputs[0], X.numpy())


def test_capturing_uses_evaluation_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.9)).train()
    first, second = (run_eagerly(xb.capture(module, (X,)).module(), (X,))[0] for _ in range(2))
    assert torch.equal(first, second)
    assert first.count_nonzero() == first.numel()


def test_a_bare_tensor_is_not_taken_apart() -> None:
    """``xb.capture(model, x)`` must not capture the rows of x as if each were an input."""
    row = X[:1]
    try:
        program = xb.capture(net(), row)  # type: ignore[arg-type]
    except CrossBackendError:
        return
    assert run_eagerly(program.module(), (row,))[0].shape == (1, 4)


def test_a_task_is_stored_beside_the_program(tmp_path: Path) -> None:
    task = Task("top-1 accuracy", np.zeros((5, 4), np.float32), np.arange(5))
    captured = store(net(), (X,), tmp_path, task=task)
    assert captured.metric == "top-1 accuracy"
    groups = load_tensors(captured.task_path)
    assert (groups["input"][0].shape, groups["label"][0].tolist()) == ((5, 4), [0, 1, 2, 3, 4])


def test_buffers_that_a_call_changes_are_state(tmp_path: Path) -> None:
    """A counter was refused: each call of the reference begins in the initial state, and so does the program."""
    module = net(lambda m, x: m.linear(x) + m.count.add_(1))
    captured = store(module, (X,), tmp_path)
    assert captured.proof["state"] == ["count"]
    sample = load_tensors(captured.sample_path)
    first, second, third = (sample[name][0] for name in ("expected", "step1.expected", "step2.expected"))
    with torch.no_grad():
        for step, found in enumerate((first, second, third)):
            wanted = module.linear(X * (1 - 0.25 * step)) + 1 + step
            assert np.allclose(found, wanted.numpy(), atol=1e-5), step
    assert "input2" not in sample and "probe1" not in sample


class _Rebinds(nn.Module):
    """Its counter is another tensor after each call, and a table of it lies in one element."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("table", torch.ones(1).expand(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return x * self.table + self.calls


def test_a_reference_begins_in_its_initial_state_however_it_keeps_it(tmp_path: Path) -> None:
    captured = store(_Rebinds(), (X,), tmp_path)
    sample = load_tensors(captured.sample_path)
    assert np.allclose(sample["expected"][0], X.numpy() + 1)
    assert captured.proof["state"] == ["calls"] and np.allclose(sample["step2.expected"][0], X.numpy() * 0.5 + 3)
