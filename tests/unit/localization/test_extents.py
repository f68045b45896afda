"""Extents: programs that compute with their free extents are cut for those of the wrong input."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.export import Dim

import cross_backend as xb
from cross_backend.errors import UnsupportedError
from cross_backend.localization.extents import computes_with_extents, with_extents
from cross_backend.localization.torch_whole import TorchWhole
from cross_backend.tensors import to_numpy


class Net(torch.nn.Module):
    """Rows are numbered, so that their count is computed with; ``//`` is what OpenVINO rounds toward 0."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        count = x.shape[0]
        rows = self.linear(torch.arange(count).unsqueeze(1) + x).reshape(count, 2, 3)
        return (rows * 10).to(torch.int64) // -3 + rows.relu() + count


class Chosen(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbered = x + torch.arange(x.shape[0]).unsqueeze(1)
        found: torch.Tensor = torch.cond(x.sum() > 0, torch.sin, torch.cos, (numbered,))
        return found


X = torch.arange(-12.0, 12.0).reshape(4, 6)
FREE = {"x": {0: Dim("rows", min=2, max=64)}}


def test_a_program_becomes_one_of_the_inputs_extents() -> None:
    module = Net().eval()
    program = torch.export.export(module, (X,), dynamic_shapes=FREE)
    assert computes_with_extents(program)
    whole = TorchWhole(program, [to_numpy(X[:3])])
    assert not computes_with_extents(whole.program), "no number is left"
    extents = [n for node in whole.program.graph.nodes for n in getattr(node.meta.get("val"), "shape", ())]
    assert all(isinstance(one, int) for one in extents) and 3 in extents
    with torch.no_grad():
        torch.testing.assert_close(whole.program.module()(X[:3]), module(X[:3]))
    names = {node.name for node in program.graph.nodes}
    assert all(set(unit) <= names for unit in whole.units), "operators keep their names"


def test_a_program_of_fixed_extents_stays() -> None:
    program = torch.export.export(Net().eval(), (X,))
    assert TorchWhole(program, [to_numpy(X)]).program is program


def test_conditions_on_free_extents_are_not_cut() -> None:
    program = torch.export.export(Chosen(), (X,), dynamic_shapes=FREE)
    with pytest.raises(UnsupportedError, match="conditions and free extents"):
        with_extents(program, {"x": X})


@pytest.mark.slow
def test_a_fault_is_found_and_scripted(tmp_path: Path) -> None:
    workload = xb.Workload("numbered", Net().eval(), (X,), dynamic_shapes=FREE)
    found = xb.localize(workload, backend="openvino", reproducer=tmp_path)
    assert found.is_sure and found.operators[0].operator == "aten.floor_divide.default", found.says
    assert (tmp_path / "numbered_openvino.py").exists()
