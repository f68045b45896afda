"""bfloat16 of Atalla: half the weights, near float32, said by the target, and as a delegate as well."""

from __future__ import annotations

import pytest
import torch

import cross_backend as xb
from cross_backend.registry import resolve
from cross_backend.verify.compare import compare_outputs, precision_of


@pytest.mark.parametrize(
    ("backend", "delegates"),
    [("atalla", {}), pytest.param("executorch.atalla", {"AtallaBackend": 1}, marks=pytest.mark.slow)],
)
def test_bf16_is_half_the_size_and_near(backend: str, delegates: dict[str, int]) -> None:
    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 32, 3), torch.nn.SiLU(), torch.nn.Flatten(), torch.nn.Linear(32 * 36, 64))
    model, x = torch.nn.Sequential(*layers).eval(), torch.randn(1, 3, 8, 8)
    program = xb.capture(model, (x,))
    full, narrow = xb.lower(program, backend), xb.lower(program, f"{backend}?precision=bf16")
    assert precision_of(resolve(narrow.target).options) == "bf16"
    assert narrow.size_bytes < full.size_bytes * 0.6
    assert narrow.placement.delegates == delegates and narrow.placement.left_count == 0
    assert {"BGEMM", "BCONV2D"} <= {row.name for row in narrow.placement.inside}
    with xb.load(narrow) as session:
        comparison = compare_outputs({"expected": [model(x).detach().numpy()]}, [[session(x.numpy())]], "bf16")
    assert comparison.verdict
    assert 30 < comparison.sqnr_db < 80, "an exact result would mean that nothing was rounded"
