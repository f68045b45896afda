"""Work is counted as by hand, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.program.flops import count_flops
from cross_backend.program.writing import write_program as write
from tests.unit.program.nets import X, net, store

Q = torch.ones(1, 2, 8, 16)
FLOPS: dict[str, tuple[nn.Module, tuple[Any, ...], int]] = {
    "linear": (nn.Linear(4, 3), (X,), 2 * 2 * 4 * 3),
    "convolution": (nn.Conv2d(3, 8, 3, padding=1), (torch.ones(1, 3, 6, 5),), 2 * 8 * 6 * 5 * 3 * 3 * 3),
    "grouped": (nn.Conv2d(8, 8, 3, groups=8), (torch.ones(1, 8, 6, 6),), 2 * 8 * 4 * 4 * 3 * 3),
    "transposed": (nn.ConvTranspose2d(3, 8, 2, stride=2), (torch.ones(1, 3, 4, 4),), 2 * 3 * 4 * 4 * 8 * 2 * 2),
    "batched": (net(lambda m, x, y: x @ y), (torch.ones(3, 2, 4), torch.ones(3, 4, 5)), 2 * 3 * 2 * 4 * 5),
    "attention": (net(lambda m, q: nn.functional.scaled_dot_product_attention(q, q, q)), (Q,), 2 * 2 * 2 * 8 * 8 * 16),
    "recurrent": (net(lambda m, x: torch.gru_cell(x, x, *m.cell)), (X,), 2 * 2 * (2 * 4 * 12)),
    "nested": (net(lambda m, d: d["a"] @ d["b"][0]), ({"a": X, "b": [X.T.contiguous()]},), 2 * 2 * 4 * 2),
    "none": (net(lambda m, x: x.sin() + 1), (X,), 0),
}
FLOPS["recurrent"][0].cell = nn.ParameterList(torch.ones(12, 4) for _ in range(2))


@pytest.mark.parametrize("case", FLOPS)
def test_work_is_counted_as_by_hand(case: str, tmp_path: Path) -> None:
    module, inputs, wanted = FLOPS[case]
    assert store(module.eval(), inputs, tmp_path).flops == wanted
    assert torch.backends.mkldnn.enabled


@pytest.mark.slow
def test_work_is_counted_where_torch_lets_no_flags_be_set(run_python: Callable[..., str]) -> None:
    code = """
import torch
from cross_backend.program.flops import count_flops
torch.backends.disable_global_flags()
x = torch.ones(2, 4)
print(count_flops(torch.export.export(torch.nn.Linear(4, 3), (x,)), (x,)))
"""
    assert run_python(code).split() == ["48"]


@pytest.mark.filterwarnings("ignore:The tensor attributes self._flat_weights")
def test_fused_recurrent_layers_are_counted_as_their_products() -> None:
    layer = nn.LSTM(4, 5, batch_first=True)
    inputs = (torch.ones(1, 3, 4),)
    program = xb.capture(layer, inputs)
    assert count_flops(program, inputs) == 2 * 3 * (4 * 20 + 5 * 20)


class _Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen: torch.Tensor = torch.cond(x.sum() > 0, self.linear, torch.sin, (x,))
        return chosen


def test_work_that_depends_on_the_input_is_not_counted(tmp_path: Path) -> None:
    """And counting never stops a capture."""
    (tmp_path / "branches").mkdir()
    assert store(_Branches().eval(), (X,), tmp_path / "branches").flops is None
    batch = torch.export.Dim("batch", min=1, max=8)
    assert write(xb.capture(nn.Linear(4, 4), (X,), ({0: batch},)), "net", tmp_path).flops is None
