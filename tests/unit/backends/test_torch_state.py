"""State on torch: what a session calls while it opens leaves no trace in the program's buffers."""

from __future__ import annotations

import pytest
import torch

import cross_backend as xb
from cross_backend.backends.torch._device import buffers_kept
from cross_backend.records import Outcome


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum())  # type: ignore[operator, union-attr]
        return x + self.total


def test_buffers_are_given_back() -> None:
    net = Counter()
    with buffers_kept(net):
        assert float(net(torch.ones(2))[0]) == 3
    assert float(net.total) == 0


@pytest.mark.parametrize("target", ["torch.eager", pytest.param("torch.compile", marks=pytest.mark.slow)])
def test_a_program_with_state_begins_in_its_initial_state(target: str) -> None:
    (result,) = xb.compare(Counter().eval(), [target], (torch.ones(1, 4),), num_runs=6, seconds=0.1).results
    assert result.outcome is Outcome.OK, result.reason
