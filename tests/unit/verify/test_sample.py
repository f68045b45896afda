"""The sample: a second input that a model takes, the scale of its outputs, and what rounding does to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cross_backend.errors import CaptureError
from cross_backend.program.captured import Captured
from cross_backend.program.flops import count_accumulations
from cross_backend.program.writing import write_capture
from cross_backend.records import Outcome
from cross_backend.tensors import dtype_of, load_tensors
from cross_backend.verify.compare import compare_outputs
from cross_backend.verify.deviation import scale_of
from cross_backend.verify.sample import UNIT, make_sample, rounding_of
from cross_backend.verify.second_input import SHRINK, second_inputs
from cross_backend.workloads import Workload

X = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)


def capture(module: nn.Module, *inputs: torch.Tensor, folder: Path) -> tuple[Captured, dict[str, Any]]:
    captured = write_capture(Workload("net", module.eval(), inputs), folder)
    return captured, load_tensors(captured.sample_path)


@pytest.mark.parametrize(
    "inputs",
    [(X,), (np.arange(6),), (X, np.array([[True, False]])), (np.float32(3.0).reshape(()),), (X.astype(np.complex64),)],
    ids=["floats", "indices", "mask", "scalar", "complex"],
)
def test_second_inputs_are_other_values_of_the_same_kind(inputs: Sequence[Any]) -> None:
    found = list(second_inputs(inputs))
    assert found
    for candidate in found:
        assert [(x.shape, x.dtype) for x in candidate] == [(x.shape, x.dtype) for x in inputs]
        assert any(not np.array_equal(a, b) for a, b in zip(inputs, candidate, strict=True))
    for a, b in zip(inputs, found[0], strict=True):
        if a.dtype.kind in "ib":
            assert sorted(a.reshape(-1)) == sorted(b.reshape(-1)), "tokens and indices stay valid"
        else:
            assert np.abs(b).max() <= np.abs(a).max() * SHRINK + 1e-6, "a range that holds 0 is kept"


def test_tokens_that_are_all_alike_have_no_second_input() -> None:
    assert list(second_inputs([np.ones((2, 3), np.int64)])) == []


def sample(run: Callable[[Any], Any], inputs: Any = (X,)) -> dict[str, Any]:
    return make_sample(inputs, run(inputs), run, [], 1)


def test_the_first_input_that_changes_the_outputs_is_taken() -> None:
    """The sum over the last axis does not see a roll; the factor does. The sign sees only what is drawn anew."""
    groups = sample(lambda arrays: [arrays[0].sum(axis=1)])
    assert not np.array_equal(groups["expected"][0], groups["expected2"][0])
    groups = sample(lambda arrays: [np.sign(arrays[0]).sum(keepdims=True)])
    assert not np.array_equal(groups["expected"][0], groups["expected2"][0])


def test_a_second_input_that_the_model_refuses_is_passed_over() -> None:
    def picky(arrays: Any) -> Any:
        if arrays[0][0, 0] != 0 and arrays[0][-1, -1] != 0:
            raise CaptureError("no")
        return [arrays[0]]

    assert "input2" in sample(picky)

    def stubborn(arrays: Any) -> Any:
        if not np.array_equal(arrays[0], X):
            raise CaptureError("no")
        return [arrays[0]]

    assert "input2" not in sample(stubborn)


def test_the_scale_is_that_of_the_changes() -> None:
    first = np.array([[1000.0, 1.0, -1e9, 5.0]])
    second = np.array([[1001.0, 2.0, -1e9, 6.0]])
    assert scale_of(first, second).tolist() == [[1.0] * 4]
    assert scale_of(np.zeros((0, 4)), None).shape == (0, 4)
    assert scale_of(np.array(3.0), np.array(5.0)) == 2.0
    assert scale_of(np.full(4, np.nan), np.full(4, np.nan)).tolist() == [0.0] * 4


class Chain(nn.Module):
    """As deep as asked for; every layer rounds."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(depth)))

    def forward(self, x: torch.Tensor) -> Any:
        return self.layers(x)


def test_a_captured_sample_has_all_groups_and_a_rounding_that_grows_with_the_program(tmp_path: Path) -> None:
    x = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
    found = []
    for depth in (1, 12):
        (tmp_path / str(depth)).mkdir()
        captured, groups = capture(Chain(depth), x, folder=tmp_path / str(depth))
        assert set(groups) >= {"input", "expected", "input2", "expected2", "scale", "rounding", "probe1", "fixed"}
        assert groups["scale"][0].shape == groups["expected"][0].shape
        module: Any = captured.program()
        again = module.module()(torch.from_numpy(groups["input2"][0])).detach().numpy()
        np.testing.assert_allclose(again, groups["expected2"][0], rtol=1e-4, atol=1e-6)
        assert count_accumulations(module) == depth * 64
        found.append(float(groups["rounding"][0]))
    assert UNIT < found[0] < found[1] < 1e-4


def test_outputs_of_16_bits_of_which_one_run_is_known_are_judged_by_their_type() -> None:
    for name, wanted in (("bfloat16", 2**-6), ("float16", 2**-9), ("float32", UNIT / 4)):
        one = [X.astype(dtype_of(name))]
        assert rounding_of(one, [], [np.ones_like(X)], 1) == wanted
        assert rounding_of(one, [one], [np.ones_like(X)], 1) == UNIT / 4, "what was seen counts more"


class Around(nn.Module):
    """What it computes is small beside a number that it adds."""

    def forward(self, x: torch.Tensor) -> Any:
        return 1000 + x.tanh() / 10


class Pooled(nn.Module):
    """The order of the tokens moves its outputs by rounding only."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(50, 64)

    def forward(self, tokens: torch.Tensor) -> Any:
        return self.embedding(tokens).mean(1)


def test_a_small_change_is_told_from_rounding(tmp_path: Path) -> None:
    for name, module, x, outcome in (
        ("around", Around(), torch.randn(2, 64, generator=torch.Generator().manual_seed(0)), Outcome.OK),
        ("pooled", Pooled(), torch.arange(48).reshape(1, 48), Outcome.NOT_PROVED),
    ):
        (tmp_path / name).mkdir()
        _, groups = capture(module, x, folder=tmp_path / name)
        first, second = groups["expected"][0], groups["expected2"][0]
        assert not np.array_equal(first, second)
        assert np.quantile(np.abs(first - second) / np.abs(first), 0.9) < 1e-3
        assert compare_outputs(groups, [groups["expected"], groups["expected2"]]).outcome is outcome
