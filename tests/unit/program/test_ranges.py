"""Ranges: weights that a narrow type cannot hold, activations beyond what calibration observed, by operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.program.ranges import out_of_range


class Net(torch.nn.Module):
    def __init__(self, weight: float = 1.0, factor: float = 1.0) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4, bias=False)
        self.linear.weight.data = torch.full((4, 4), weight)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x) * self.factor).tanh()


SAMPLE = np.full((1, 4), 0.5, np.float32)
SMALL = [(SAMPLE * share,) for share in (-0.2, 0.1, 0.2)]


def _program(net: torch.nn.Module) -> torch.export.ExportedProgram:
    return xb.capture(net.eval(), (torch.from_numpy(SAMPLE),))


def test_a_weight_that_float16_cannot_hold_is_named() -> None:
    (told,) = out_of_range(_program(Net(1e5, 1e-6)), "fp16", [], (SAMPLE * 0,))
    assert told == "weight linear.weight reaches 1e+05; fp16 ends at 65,504, beyond which it is infinite"
    assert out_of_range(_program(Net(1e5, 1e-6)), "bf16", [], (SAMPLE,)) == ()


def test_an_operator_beyond_float16_is_named_with_its_line() -> None:
    (told,) = out_of_range(_program(Net(1.0, 1e5)), "fp16", [], (SAMPLE,))
    assert told.startswith("mul (") and "tests/unit/program/test_ranges.py" not in told
    assert "return (self.linear(x) * self.factor).tanh()" in told
    assert told.endswith("reaches 2e+05 on the sample; fp16 ends at 65,504")


def test_activations_beyond_their_calibration_are_named() -> None:
    told = out_of_range(_program(Net()), "int8", SMALL, (SAMPLE,))
    assert [text.partition(" ")[0] for text in told] == ["mul", "linear", "tanh"]
    assert all("saturates: 100 % of its values on the sample lie beyond" in text for text in told)
    assert "up to 5 times its range" in told[0]


@pytest.mark.parametrize(
    ("precision", "calibration"),
    [("int8", [*SMALL, (SAMPLE,)]), ("int8", [(SAMPLE * 1.001,), (-SAMPLE,)]), ("int8dyn", SMALL), ("fp16", SMALL)],
    ids=["the sample was observed", "within a percent", "scales at each call", "small enough"],
)
def test_nothing_is_told_of_what_fits(precision: str, calibration: list[tuple[np.ndarray, ...]]) -> None:
    assert out_of_range(_program(Net()), precision, calibration, (SAMPLE,)) == ()


def test_the_manifest_keeps_it_and_a_comparison_warns(tmp_path: Path) -> None:
    program = _program(Net(1.0, 1e5))
    artifact = xb.lower(program, "openvino?precision=fp16", name="net", output_dir=tmp_path)
    assert len(artifact.ranges) == 1 and Artifact.read(artifact.manifest_path).ranges == artifact.ranges
    (result,) = xb.compare(program, ["openvino?precision=fp16"], num_runs=6, seconds=0.1).results
    assert result.warnings[0] == artifact.ranges[0]
