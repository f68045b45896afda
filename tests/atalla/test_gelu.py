"""GELU: how exact it is, and that a product's own has the bits of an element-wise step's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import atalla
from atalla.blob.disasm import disassemble
from tests.atalla.native import sets_here


@pytest.mark.parametrize("isa", sorted(sets_here()))
def test_gelu_is_nearer_to_float64_than_eager(isa: str) -> None:
    x = torch.cat([torch.linspace(-9, 9, 40_001), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 3e38, -3e38])])
    program = torch.export.export(nn.GELU(), (x,))
    (found,) = atalla.load(atalla.compile(program).data, isa=isa).run((x,))
    assert (found - nn.functional.gelu(x.double())).abs().max() <= 3e-7


@pytest.mark.parametrize("isa", sorted(sets_here()))
def test_gelu_behind_a_product_is_what_gelu_of_its_outcome_alone_is(isa: str) -> None:
    """In tiles it is computed of several rows together, where they are pairs and the tile is full."""

    class Behind(nn.Module):
        def __init__(self, *, keeps: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.keeps, self.layers = keeps, nn.ModuleList(nn.Linear(9, n) for n in (16, 24, 37, 64))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            made = [layer(x) for layer in self.layers]
            return [nn.functional.gelu(one) for one in made] + (made if self.keeps else [])

    x = torch.randn(300, 9) * 3
    x[5], x[6, 0], x[7, 0] = torch.nan, torch.inf, -torch.inf
    rows = torch.export.Dim("rows", min=1, max=300)
    fused, alone = (
        atalla.compile(torch.export.export(Behind(keeps=keeps), (x,), dynamic_shapes=({0: rows},)))
        for keeps in (False, True)
    )
    assert [sum("act=GELU" in line for line in disassemble(one.data)) for one in (fused, alone)] == [4, 0]
    for count in (*range(1, 30), 300):
        some = x[:count]
        found, wanted = (atalla.load(one.data, isa=isa).run((some,)) for one in (fused, alone))
        for one, expected in zip(found, wanted, strict=False):
            torch.testing.assert_close(one, expected, rtol=0, atol=0, equal_nan=True)
