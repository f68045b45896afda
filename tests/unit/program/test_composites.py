"""Attention taken apart is torch's own, rows that a mask hides whole included."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from cross_backend.program.composites import plain_attention

HIDDEN = torch.tensor([[True, True, False], [False, False, False], [False, True, True]])
ADDED = torch.zeros(3, 3).masked_fill(~HIDDEN, float("-inf"))
LARGE = torch.zeros(3, 3).masked_fill(~HIDDEN, torch.finfo(torch.float32).min)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", [None, HIDDEN, ADDED, LARGE, ADDED + 0.5, "causal"])
def test_attention_is_torchs(mask: torch.Tensor | str | None, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 3, 8).to(dtype) * 3 for _ in range(3))
    is_causal = mask == "causal" if isinstance(mask, str) else False
    given = mask if isinstance(mask, torch.Tensor) else None
    if given is not None and given.is_floating_point():
        given = given.to(dtype)
    wanted = scaled_dot_product_attention(query, key, value, given, is_causal=is_causal)
    found = plain_attention(query, key, value, given, is_causal=is_causal)
    assert torch.isfinite(wanted).all()
    torch.testing.assert_close(
        found, wanted, rtol=2e-2 if dtype != torch.float32 else 1e-5, atol=2e-2 if dtype != torch.float32 else 1e-5
    )
