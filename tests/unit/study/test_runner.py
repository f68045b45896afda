"""Runner: what is asked for is checked before anything is done, and becomes a study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cross_backend import ComparisonRunner
from cross_backend.errors import CaptureError, UsageError
from cross_backend.study.runner import Results
from tests.unit.report.studies import panel, study

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a setting": ({"secnods": 1}, r"unknown setting 'secnods'\. Did you mean 'seconds'\?.*Choices: .*margin"),
    "a value": ({"margin": "200%"}, "margin: "),
    "an instrument": ({"instruments": ["thermometer"]}, "unknown instrument 'thermometer'"),
    "a backend": ({"backends": ["xnpack"]}, "backends: .*Did you mean 'xnnpack'"),
    "a text for a list": ({"backends": "cpu"}, "backends: a list is expected"),
    "a number for a list": ({"batch_sizes": 4}, "batch_sizes: a list is expected"),
    "a batch size": ({"batch_sizes": [0]}, "batch_sizes: a whole number from 1"),
    "a precision": ({"precisions": ["fp17"]}, "precisions: "),
    "a model": ({"model": "resnet51"}, "unknown model 'resnet51'"),
    "a file": ({"model": "none.onnx"}, "none.onnx does not exist"),
    "inputs of a name": ({"inputs": ()}, "inputs go with a torch module"),
    "neither model nor name": ({"model": 5}, "model is a int"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_told_before_anything_is_done(case: str, tmp_path: Path) -> None:
    changes, words = WRONG[case]
    given: dict[str, Any] = {"model": "linear_regression", "backends": ["cpu"], "db": str(tmp_path / "s"), **changes}
    with pytest.raises(UsageError, match=words):
        ComparisonRunner(**given)
    assert list(tmp_path.iterdir()) == []


def test_a_module_needs_inputs_and_a_batch_axis() -> None:
    with pytest.raises(UsageError, match="needs its example inputs"):
        ComparisonRunner(torch.nn.ReLU(), ["torch"])
    for inputs, kind in ((5, "int"), ((np.ones(3),), "ndarray")):
        with pytest.raises(UsageError, match=f"inputs are torch tensors, not {kind}"):
            ComparisonRunner(torch.nn.ReLU(), ["torch"], inputs=inputs)  # type: ignore[arg-type]

    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(1, 3)

    with pytest.raises(CaptureError, match="Fixed cannot take a free batch dimension"):
        ComparisonRunner(Fixed(), ["torch"], batch_sizes=[2], inputs=(torch.rand(1, 3),))


def test_what_is_asked_for_becomes_a_study(tmp_path: Path) -> None:
    runner = ComparisonRunner(
        "linear_regression", ("cpu", "torch", "cpu"), [1, 8], ["fp32"], [1, 2], margin="2%", seed=3
    )
    asked = runner.study
    assert (asked.name, asked.targets, asked.batch_sizes) == ("linear_regression", ("cpu", "torch"), (1, 8))
    assert (asked.precisions, asked.threads) == (("fp32",), (1, 2))
    assert (asked.settings.margin, asked.settings.seed, asked.settings.launches) == (0.02, 3, 3)
    assert [(one.batch, one.threads) for one in asked.panels()] == [(1, 1), (1, 2), (8, 1), (8, 2)]
    assert ComparisonRunner("linear_regression", ["cpu"], name="mine").study.name == "mine"


def test_a_module_is_kept_in_a_file() -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = torch.nn.Linear(4, 2)
    fixed = ComparisonRunner(module, ["cpu"], inputs=(torch.ones(1, 4),)).study.workloads[0]
    free = ComparisonRunner(module, ["cpu"], batch_sizes=[1, 2], inputs=torch.ones(1, 4)).study.workloads[0]
    again = ComparisonRunner(module, ["cpu"], inputs=(torch.ones(1, 4),)).study.workloads[0]
    assert fixed.name == free.name == "Linear" and fixed.content != free.content
    assert again == fixed, "so the same study is gone on with"
    program = torch.export.load(free.model)
    assert program.module()(torch.ones(5, 4)).shape == (5, 2)


def test_results_write_reports(tmp_path: Path) -> None:
    results = Results(study(panel(targets=2)))
    assert results.panels[0].ranked[0].rank == 1
    assert results.to_json()["study"] == "quick test"
    assert results.generate_report(tmp_path / "r.md") == tmp_path / "r.md"
    assert "quick test" in (tmp_path / "r.md").read_text()
