"""Reasons: what a vendor refuses is named by its operator, wherever in its message that stands."""

from __future__ import annotations

import pytest
import torch

import cross_backend as xb
from cross_backend.errors import LowerError


class _Bessel(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x)


@pytest.mark.parametrize("target", ["cpu", "openvino"])
def test_an_operator_that_a_vendor_lacks_is_named(target: str) -> None:
    program = xb.capture(_Bessel(), (torch.rand(3, 3),))
    with pytest.raises(LowerError, match="bessel_j0") as caught:
        xb.lower(program, target)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 400
