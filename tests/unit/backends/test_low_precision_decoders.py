"""Low precisions of decoders: a prompt and its tokens are near float32; embeddings are a product's weights, too."""

from __future__ import annotations

import math

import pytest
import torch

import cross_backend as xb
from cross_backend.backends._quantize import GROUP
from cross_backend.workloads.decoder import Shape
from tests.unit.backends.tiny_decoders import calls_of, logits_of, program_of, tiny

TARGETS = {
    "onnxruntime.cpu": ("int8dyn", "int4w"),
    "openvino": ("int8dyn", "int4w"),
    "torch.eager": ("int8dyn", "int4w"),
    "executorch.xnnpack": ("int8dyn", "int4w"),
}
CASES = [(target, precision) for target, precisions in TARGETS.items() for precision in precisions]
SLOW = "executorch"


@pytest.mark.parametrize(
    ("target", "precision"),
    [pytest.param(*one, marks=pytest.mark.slow if one[0].startswith(SLOW) else ()) for one in CASES],
)
def test_a_prompt_and_its_tokens_are_near(target: str, precision: str) -> None:
    workload = tiny("llama", width=GROUP // 4)
    shape: Shape = workload.model.shape  # type: ignore[union-attr,assignment]
    assert shape.hidden % GROUP == 0
    artifact = xb.lower(program_of(workload), f"{target}?precision={precision}")
    if target != "torch.eager":
        assert artifact.placement.arithmetic is not None
        assert sum(row.count for row in artifact.placement.arithmetic.low) >= 4 * shape.layers
    calls = calls_of(workload)
    with xb.load(artifact, trust=True) as session:
        for _ in range(2):
            session.reset()
            for call, want in zip(calls, logits_of(workload, calls), strict=True):
                got = torch.as_tensor(session(*call))
                assert float(torch.nn.functional.cosine_similarity(got, want)) > 0.9
                assert not math.isclose(float((got - want).abs().max()), 0.0, abs_tol=1e-6), "nothing was quantised"


@pytest.mark.parametrize("precision", ["int8dyn", "int4w"])
def test_weights_that_are_read_as_rows_too_stay_as_they_are_there(precision: str) -> None:
    """Embeddings that are the last product's weights: ONNX Runtime's tool transposes a product's weights in place."""

    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.nn.Embedding(3 * GROUP, GROUP)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(self.rows(ids), self.rows.weight)

    torch.manual_seed(0)
    net, ids = Tied().eval(), torch.tensor([5, 3 * GROUP - 1])
    artifact = xb.lower(xb.capture(net, (ids,)), f"onnxruntime.cpu?precision={precision}")
    with xb.load(artifact) as session:
        assert session(ids).argmax(-1).tolist() == ids.tolist() == net(ids).argmax(-1).tolist()
