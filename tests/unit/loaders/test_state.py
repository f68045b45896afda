"""State: models begin in their initial one; the Python loader keeps it, and verifies the calls after the first."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.program.writing import write_program
from tests.unit.loaders.bundles import edit, run, write


class Running(torch.nn.Module):
    """A running sum that begins at 3."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.full((2,), 3.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


@pytest.fixture(scope="module")
def made_with_state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    captured = write_program(xb.capture(Running(), (torch.ones(2),)), "running", tmp_path_factory.mktemp("captured"))
    return write(captured, ["portable"], {}, tmp_path_factory.mktemp("bundles"))


def test_the_python_loader_keeps_the_state_from_call_to_call(module: Any, made_with_state: Path) -> None:
    model = module.load_best(made_with_state)
    x = np.ones(2, np.float32)
    assert model.has_state and [float(model(x)[0][0]) for _ in range(3)] == [8.0, 10.0, 12.0]
    assert float(model.forward(x)[0]) == 14.0
    model.reset()
    assert float(model(x)[0][0]) == 8.0
    with pytest.raises(RuntimeError):
        model(np.ones(3, np.float32))
    with pytest.raises(module.BundleError, match="reset"):  # not known whether the failed call changed it
        model(x)
    model.reset()
    assert float(model(x)[0][0]) == 8.0


def test_the_cpp_loader_begins_in_the_initial_state(program: Path, made_with_state: Path) -> None:
    assert run(program, made_with_state, "linux", "call").stdout == "8", "no call of the verification is left in it"


def test_the_python_loader_verifies_the_calls_after_the_first(
    module: Any, made_with_state: Path, tmp_path: Path
) -> None:
    bundle = Path(shutil.copytree(made_with_state, tmp_path / "bundle"))
    path = bundle / "sample" / "step1.expected_0.npy"
    np.save(path, np.load(path) + 1)

    def sign(manifest: dict[str, Any]) -> None:
        (row,) = [row for row in manifest["sample"]["steps"] if row["path"].endswith(path.name)]
        row["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()

    edit(bundle, sign)
    with pytest.raises(module.BundleError, match="off by"):
        module.load_best(bundle)
    assert module.load_best(bundle, verify=False).has_state
