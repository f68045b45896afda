"""Accuracy: samples go through in batches of the program's own size, and the filling of the last does not count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.errors import RunError
from cross_backend.instruments.accuracy import score

SAMPLES = np.random.default_rng(0).standard_normal((11, 4)).astype(np.float32)


def net() -> torch.nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return torch.nn.Linear(4, 3).eval()


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> dict[int, xb.Artifact]:
    """Lower the same layer with several batch sizes."""
    folder = tmp_path_factory.mktemp("batches")
    return {
        batch: xb.lower(xb.capture(net(), (torch.ones(batch, 4),)), "cpu", name=f"net{batch}", output_dir=folder)
        for batch in (1, 4, 11)
    }


@pytest.mark.parametrize("batch", [1, 4, 11])
def test_every_batch_size_gives_the_same_score(lowered: dict[int, xb.Artifact], batch: int) -> None:
    with torch.no_grad():
        labels = net()(torch.from_numpy(SAMPLES)).argmax(1).numpy()
    labels[[2, 10]] = (labels[[2, 10]] + 1) % 3  # the last one too: filled up with it, it must count once
    with xb.load(lowered[batch]) as session:
        assert score(session, [SAMPLES], labels) == pytest.approx(9 / 11)
        assert score(session, [SAMPLES], labels, among=3) == 1


def test_outputs_that_are_not_a_row_a_sample_cannot_be_scored(tmp_path: Path) -> None:
    class Sums(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sum(0)

    artifact = xb.lower(xb.capture(Sums(), (torch.ones(3, 4),)), "cpu", name="sums", output_dir=tmp_path)
    with xb.load(artifact) as session, pytest.raises(RunError, match=r"returns \[4\] for 3 samples"):
        score(session, [SAMPLES], np.zeros(11, np.int64))
