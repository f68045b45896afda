"""Core ML keeps a program's state itself, in files for systems that can."""

from __future__ import annotations

import pytest
import torch

import cross_backend as xb


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


@pytest.mark.filterwarnings("ignore")  # coremltools' own
def test_state_is_lowered_for_systems_that_have_it() -> None:
    artifact = xb.lower(xb.capture(Counter(), (torch.ones(2),)), "executorch.coreml")
    assert artifact.placement.coverage == 1 and "read_state" in {row.name for row in artifact.placement.inside}
