"""What the tests of trust share: a program that torch saved, and the trace that no test may leave."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.unit.trust.strangers import Net, X


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "net.pt2"
    program = torch.export.export(Net(), (X,), dynamic_shapes=({0: torch.export.Dim("n", min=2, max=64)},))
    torch.export.save(program, path)
    return path


@pytest.fixture
def spied(tmp_path: Path) -> Path:
    return tmp_path / "it-ran"
