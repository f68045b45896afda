"""Stability: probes on which another order of sums gives other outputs are dropped; 16-bit types have their noise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cross_backend.bench.open_artifact import OpenArtifact, open_session, resolve_with_threads
from cross_backend.bench.verification import verified
from cross_backend.cache import Cache
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import PROOF
from cross_backend.program.writing import write_capture
from cross_backend.records import Outcome
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import PRECISIONS, compare_further, compare_outputs, says_nothing, tolerances_of
from cross_backend.verify.further import PROBE, further_of
from cross_backend.verify.narrow import MOST, narrow_group, narrow_of
from cross_backend.verify.probes import Hint, probes_of
from cross_backend.workloads import Workload

TERMS, GATES = 4096, 32
X = torch.randn(1, TERMS, generator=torch.Generator().manual_seed(3))
STEEP = 3e5
NEAR = 8e-5
"""How far a gate is from its tie: more than one rounding error a value does to its sum, less than another order."""


class Gates(nn.Module):
    """Steep gates on sums, all nearly ties on one input, as squeeze and excitation has them on large values."""

    def __init__(self, at: torch.Tensor) -> None:
        super().__init__()
        signs = torch.randn(GATES, TERMS, generator=torch.Generator().manual_seed(0)).sign()
        away = NEAR * signs[:, 0].double()
        self.register_buffer("signs", signs)
        self.register_buffer("ties", (at.double() @ signs.double().T - away).float())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(STEEP * ((x[:, None] * self.signs).sum(-1) - self.ties))


def in_order(module: Gates, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what a target gives that adds one term after the other, as many kernels do."""
    sums = np.add.accumulate(x * module.signs.numpy(), axis=1, dtype=np.float32)[:, -1]
    return torch.sigmoid(STEEP * (torch.from_numpy(sums)[None] - module.ties)).numpy()


def captured(module: nn.Module, folder: Path, x: torch.Tensor = X) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sample and what it proves."""
    made = write_capture(Workload("net", module.eval(), (x,)), folder)
    return load_tensors(made.sample_path), json.loads((folder / PROOF).read_text())


def test_a_probe_on_which_another_order_of_sums_turns_a_gate_is_dropped(tmp_path: Path) -> None:
    first = next(iter(probes_of((X.numpy(),), (Hint(),))))
    module = Gates(torch.from_numpy(first.inputs[0])).eval()
    with torch.no_grad():
        right, other = module(torch.from_numpy(first.inputs[0])).numpy(), in_order(module, first.inputs[0])
    assert np.abs(right - other).max() > 0.5, "a right target is far off on this probe"
    sample, proof = captured(module, tmp_path)
    assert "16 rounding errors a value change the outputs by" in proof["dropped"][first.name]
    probes = {one.name: one for one in further_of(PROBE, sample)}
    assert proof["probes"] == list(probes)
    assert f"{first.name}, smaller" in probes, "where it says something"
    for one in probes.values():
        assert compare_further(sample, one, [in_order(module, one.inputs[0])], "fp32") is None


class Wide(nn.Module):
    """Sums that are far larger where all values have one sign; 1 hardly a sixteenth of what float16 holds before."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = nn.Linear(1024, 8, bias=False)
        nn.init.uniform_(self.sums.weight, 0.5, 1.5, generator=torch.Generator().manual_seed(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.sums(x) * 100) / 100


def test_a_probe_beyond_the_range_of_float16_says_nothing_of_it(tmp_path: Path) -> None:
    x = torch.randn(2, 1024, generator=torch.Generator().manual_seed(0))
    made = write_capture(Workload("net", Wide().eval(), (x,)), tmp_path)
    probes = {one.name: one for one in further_of(PROBE, load_tensors(made.sample_path))}
    found = {name: says_nothing(one, "fp16") for name, one in probes.items()}
    assert found["negative"] == "beyond the range of float16" and found["both signs"] is None
    assert not any(says_nothing(one, precision) for one in probes.values() for precision in ("fp32", "bf16", "int8"))
    resolved, options = resolve_with_threads("portable?precision=fp16", 1)
    artifact = lower(made, resolved, Cache(tmp_path / "cache")).artifact
    one = OpenArtifact(lambda: open_session(artifact, resolved, options), load_tensors(made.sample_path))
    comparison = verified(one, "fp16").comparison
    outputs = one.session.bind(probes["negative"].inputs)()
    one.close()
    assert not np.isfinite(np.asarray(outputs[0])).all(), "it is"
    assert comparison.outcome is Outcome.OK and comparison.probes
    assert "negative: beyond the range of float16" in comparison.unjudged


class Deep(nn.Module):
    """Layers that add up the rounding of each."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(nn.Linear(64, 64) for _ in range(depth)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.sin(4 * layer(x))
        return x


def test_what_16_bits_may_change_is_what_exact_rounding_does_to_the_program(tmp_path: Path) -> None:
    """A chaotic program adds more than most, and a right target of 16 bits does so, too; a wrong one is far off."""
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(0))
    sample, _ = captured(Deep(9).eval(), tmp_path, x)
    noise = narrow_of(sample["narrow"])
    assert noise["fp16"] < 0.05 < 0.13 < noise["bf16"]
    assert tolerances_of(sample, {"precision": "fp16"})["mean_tolerance"] == PRECISIONS["fp16"].mean
    assert PRECISIONS["bf16"].mean < tolerances_of(sample, {"precision": "bf16"})["mean_tolerance"] <= MOST
    inputs = [torch.from_numpy(sample[group][0]) for group in ("input", "input2")]
    half = Deep(9).eval().bfloat16()
    with torch.no_grad():
        right = [[half(one.bfloat16()).float().numpy()] for one in inputs]
        other = [[Deep(10)(one).numpy()] for one in inputs]
    found = compare_outputs(sample, right, "bf16")
    assert found.outcome is Outcome.OK, found.why
    wrong = compare_outputs(sample, other, "bf16")
    assert wrong.outcome is Outcome.MISMATCH and "× exact rounding to 16 bits" in str(wrong.reason)


@pytest.mark.parametrize(
    ("noise", "rms", "outcome"),
    [
        (0.01, 0.14, Outcome.OK),
        (0.01, 0.16, Outcome.MISMATCH),
        (0.1, 0.24, Outcome.OK),
        (0.1, 0.26, Outcome.MISMATCH),
        (0.3, 0.44, Outcome.OK),
        (0.3, 0.6, Outcome.NOT_PROVED),
        (0.3, 0.8, Outcome.MISMATCH),
        (float("inf"), 0.16, Outcome.MISMATCH),
    ],
)
def test_the_limit_of_16_bits_follows_the_noise_up_to_where_nothing_is_proved(
    noise: float, rms: float, outcome: Outcome
) -> None:
    """Beyond that, an output is not told from that of another program, so it is neither right nor wrong."""
    want = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
    sample = {
        "input": [],
        "expected": [want],
        "scale": [np.ones_like(want)],
        "rounding": [np.array(1e-4)],
        "narrow": narrow_group({"fp16": noise}),
    }
    signs = np.where(np.random.default_rng(1).random(want.shape) < 0.5, -1, 1)
    got = (want + rms * signs * (np.abs(want) + 1)).astype(np.float32)
    assert compare_outputs(sample, [[got]], "fp16").outcome is outcome
    assert narrow_of(sample["narrow"]) == {"fp16": noise}
