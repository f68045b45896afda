"""Adversarial: planted faults that random inputs and probes miss are found; a right target stays right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cross_backend.cache import Cache
from cross_backend.localization.adversarial import Run, hunt
from cross_backend.program.capture import capture
from cross_backend.program.captured import Captured
from cross_backend.program.kept_probes import MOST, keep_probes, kept_probes
from cross_backend.program.writing import write_program
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import compare_further
from cross_backend.verify.further import PROBE, KnownInput, further_of

SECONDS = 20.0
"""Longest search; each of these ends far earlier."""


class Sums(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.softsign(x).sum(1) + x.sum(1)


class Products(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * x).mean(1)


def captured_in(folder: Path, module: nn.Module) -> Captured:
    generator = torch.Generator().manual_seed(1)
    folder.mkdir(exist_ok=True)
    return write_program(capture(module.eval(), (torch.randn(2, 8, generator=generator),)), "net", folder)


def of(function: Any) -> Run:
    return lambda inputs: [function(torch.from_numpy(np.array(inputs[0]))).detach().numpy()]


def clamped(x: torch.Tensor) -> torch.Tensor:
    """Sums of inputs that are cut off at 1000: it shows on large ones only."""
    return nn.functional.softsign(x).sum(1) + x.clamp(-1e3, 1e3).sum(1)


def overflowing(x: torch.Tensor) -> torch.Tensor:
    """A sum of squares that is accumulated in 32-bit integers, which overflow where it is large."""
    squares = (x * x).mean(1)
    return torch.where((x * x).sum(1) >= 2**31, torch.inf, squares)


@pytest.mark.parametrize(("module", "wrong"), [(Sums(), clamped), (Products(), overflowing)])
def test_a_fault_that_probes_miss_is_found_and_kept(module: nn.Module, wrong: Any, tmp_path: Path) -> None:
    captured = captured_in(tmp_path / "capture", module)
    sample, run = load_tensors(captured.sample_path), of(wrong)
    probes = list(further_of(PROBE, sample))
    assert probes
    assert all(compare_further(sample, one, run(one.inputs), "fp32") is None for one in probes)
    found = hunt(captured.program(), sample, run, "fp32", SECONDS)  # type: ignore[arg-type]
    assert found.found is not None and found.reason
    cache = Cache(tmp_path / "cache")
    assert kept_probes(cache, captured.digest) is None
    path = keep_probes(cache, captured.digest, [found.found])
    assert path == kept_probes(cache, captured.digest)
    (kept,) = further_of(PROBE, load_tensors(path))
    assert compare_further(sample, kept, run(kept.inputs), "fp32") is not None
    assert compare_further(sample, kept, of(module)(kept.inputs), "fp32") is None


@pytest.mark.slow
def test_a_right_program_in_another_order_of_its_sums_survives(tmp_path: Path) -> None:
    captured = captured_in(tmp_path / "capture", Sums())
    run = of(lambda x: (nn.functional.softsign(x) + x).flip(1).double().sum(1).float())
    found = hunt(captured.program(), load_tensors(captured.sample_path), run, "fp32", 3.0)  # type: ignore[arg-type]
    assert found.found is None and found.tried > 20


def test_inputs_on_which_the_program_itself_is_unstable_say_nothing(tmp_path: Path) -> None:
    """Differences of large numbers: any other order of the sums gives other outputs."""

    class Unstable(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x * 1e4).sum(1)

    captured = captured_in(tmp_path / "capture", nn.Sequential(nn.Linear(8, 8), Unstable()))
    module = captured.program().module()  # type: ignore[union-attr]
    run = of(lambda x: module(x * (1 + 2.0**-23)))
    found = hunt(captured.program(), load_tensors(captured.sample_path), run, "fp32", 2.0)  # type: ignore[arg-type]
    assert found.found is None and found.unstable > 0


def test_bounded_inputs_stay_in_the_range_of_the_sample(tmp_path: Path) -> None:
    captured = captured_in(tmp_path / "capture", Products())
    sample, seen = load_tensors(captured.sample_path), []

    def run(inputs: Any) -> Any:
        seen.append(inputs[0])
        return of(Products())(inputs)

    hunt(captured.program(), sample, run, "fp32", 1.0, bounded=True)  # type: ignore[arg-type]
    low, high = float(sample["input"][0].min()), float(sample["input"][0].max())
    assert seen and all(low <= x.min() and x.max() <= high for x in seen)


def test_the_same_seed_tries_the_same_inputs(tmp_path: Path) -> None:
    captured = captured_in(tmp_path / "capture", Products())
    runs = []
    for _ in range(2):
        seen: list[Any] = []

        def run(inputs: Any, seen: list[Any] = seen) -> Any:
            seen.append(inputs[0])
            return of(Products())(inputs)

        hunt(captured.program(), load_tensors(captured.sample_path), run, "fp32", 1.0, seed=3)  # type: ignore[arg-type]
        runs.append(seen)
    assert min(map(len, runs)) > 10 and all(map(np.array_equal, *runs))


def test_the_oldest_kept_probes_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    x = np.ones(2, np.float32)
    for number in range(MOST + 2):
        path = keep_probes(cache, "a" * 64, [KnownInput(f"adversarial {number}", [x * number], [x])])
    names = [one.name for one in further_of(PROBE, load_tensors(path))]
    assert len(names) == MOST and names[-1] == f"adversarial {MOST + 1}"


def test_two_targets_are_compared_with_each_other(tmp_path: Path) -> None:
    captured = captured_in(tmp_path / "capture", Sums())
    program, sample = captured.program(), load_tensors(captured.sample_path)
    asked: Any = (program, sample, of(clamped), "fp32")
    found = hunt(*asked, SECONDS, other=of(Sums()))
    assert found.found is not None and found.reason
    wanted = of(Sums())(found.found.inputs)[0]
    assert np.allclose(found.found.expected[0], wanted, rtol=1e-4), "what is kept has the reference's outputs"
    assert hunt(*asked, 2.0, other=of(clamped)).found is None, "both are wrong in the same way"
