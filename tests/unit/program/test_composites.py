"""Attention taken apart is torch's own, rows that a mask hides whole included; so is gelu by tanh."""

import pytest
import torch
from torch.nn.functional import gelu, scaled_dot_product_attention

import cross_backend as xb
from cross_backend.program.composites import plain_attention, with_gelu_by_sigmoid
from cross_backend.tensors import to_numpy
from tests import needs

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


class Gelus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return gelu(x, approximate="tanh"), gelu(x)


X = torch.linspace(-8, 8, 1601).reshape(1, -1)


def test_gelu_by_tanh_is_taken_apart_and_the_exact_one_stays() -> None:
    program = xb.capture(Gelus(), (X,))
    plain = with_gelu_by_sigmoid(program)
    targets = [str(node.target) for node in plain.graph.nodes]
    assert targets.count("aten.gelu.default") == 1 and "aten.sigmoid.default" in targets
    torch.testing.assert_close(plain.module()(X), Gelus()(X), rtol=1e-6, atol=1e-6)
    assert with_gelu_by_sigmoid(plain) is plain


@pytest.mark.parametrize("target", ["executorch.xnnpack", "iree.llvm_cpu"])
def test_compilers_compute_both(target: str) -> None:
    if target.startswith("iree"):
        needs.no_space()
    wanted = [one.float() for one in Gelus()(X.double())]
    with xb.load(xb.lower(xb.capture(Gelus(), (X,)), target)) as session:
        found = [torch.from_numpy(to_numpy(one)) for one in session(X)]
    torch.testing.assert_close(found[0], wanted[0], rtol=1e-5, atol=1e-6)
    assert not torch.allclose(found[0], found[1], rtol=1e-5, atol=1e-5), "the attribute counts"
