"""One row times a matrix that is not packed has the bits of the same row among others, on every instruction set."""

from __future__ import annotations

import itertools

import pytest
import torch

import atalla
from tests.atalla.native import sets_here

DEPTHS, COLUMNS = (0, 17, 48, 321), (1, 15, 64, 130)


class Product(torch.nn.Module):
    def __init__(self, *, turned: bool) -> None:
        super().__init__()
        self.turned = turned

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return 0.5 * (a @ (b.transpose(1, 2) if self.turned else b))


def blob(turned: bool, *inputs: torch.Tensor) -> bytes:
    return atalla.compile(torch.export.export(Product(turned=turned), inputs)).data


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_one_row_has_the_bits_of_a_row_among_others(turned: bool) -> None:
    torch.manual_seed(0)
    for depth, columns in itertools.product(DEPTHS, COLUMNS):
        a, b = torch.randn(2, 2, depth), torch.randn(2, *((columns, depth) if turned else (depth, columns)))
        one = a[:, :1].contiguous()
        alone, among = blob(turned, one, b), blob(turned, a, b)
        for isa in sorted(sets_here() & {"base", "avx2", "avx512"}):
            found = atalla.load(alone, isa=isa).run((one, b))[0]
            assert torch.equal(found, atalla.load(among, isa=isa).run((a, b))[0][:, :1]), (isa, depth, columns)
            torch.testing.assert_close(found, Product(turned=turned)(one, b), rtol=1e-5, atol=1e-4)
