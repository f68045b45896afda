"""Noise: every element of a tensor is changed by its own few rounding errors, whatever its layout and type."""

from __future__ import annotations

import pytest
import torch

from cross_backend.program.noise import Noise

X = torch.rand(2, 40, 32, 33, generator=torch.Generator().manual_seed(0)) + 0.5
"""More elements than are drawn."""


@pytest.mark.parametrize(
    "x",
    [
        X,
        X.permute(0, 2, 3, 1),
        X[:, ::2],
        X[:1, :1].expand(5, 3, 32, 33),
        X.to(memory_format=torch.channels_last),
        X.half(),
        X.double(),
        X.to(torch.complex64),
        torch.tensor(2.0),
        torch.zeros(0, 3),
    ],
    ids=["plain", "permuted", "strided", "expanded", "channels last", "half", "double", "complex", "scalar", "empty"],
)
def test_elements_change_by_up_to_so_many_rounding_errors(x: torch.Tensor) -> None:
    before = x.clone()
    found = Noise(0, 4).disturbed(x)
    assert torch.equal(x, before)
    assert (found.shape, found.dtype) == (x.shape, x.dtype)
    if x.numel() > 1:
        steps = ((found - x).abs() / x.abs() / torch.finfo(x.dtype).eps).double()
        assert 3 < float(steps.max()) < 5.5 and 1.5 < float(steps.mean()) < 3
        assert len({complex(one) for one in (found[0, 0] / x[0, 0]).flatten()}) > 5


def test_the_other_sign_is_the_same_errors_turned() -> None:
    up, down = (Noise(0, steps).disturbed(X) - X for steps in (16, -16))
    assert float((up + down).abs().max()) < 4e-7 < 1e-6 < float(up.abs().max())
    again = Noise(0, 16).disturbed(X) - X
    assert torch.equal(up, again)


def test_what_is_no_float_stays() -> None:
    tokens, mask = torch.arange(5), torch.tensor([True, False])
    noise = Noise(0, 4)
    assert noise.disturbed(tokens) is tokens and noise.disturbed(mask) is mask and noise.disturbed(3) == 3
