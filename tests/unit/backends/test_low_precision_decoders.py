"""Low precisions of decoders: a prompt and its tokens are near float32; embeddings are a product's weights, too."""

from __future__ import annotations

import itertools

import pytest
import torch

import cross_backend as xb
from cross_backend.backends._quantize import GROUP
from cross_backend.workloads.decoder import Shape
from tests.unit.backends.tiny_decoders import KINDS, VOCABULARY, Call, logits_of, program_of, tiny

TARGETS = ("onnxruntime.cpu", "openvino", "torch.eager", "executorch.xnnpack")
BY_DAY = {("llama", "int8dyn"), ("qwen", "int4w")}
"""They take seconds to most of a minute: by day each precision of one kind."""
WIDENS = "torch.eager"
"""What computes products of 4-bit weights in float32."""
LENGTHS = (11, 1, 1, 4, 1)
"""Tokens of each call; the program is captured with a prompt of 5."""


def calls() -> list[Call]:
    ids = torch.randint(VOCABULARY, (1, sum(LENGTHS)), generator=torch.Generator().manual_seed(0))
    starts = [sum(LENGTHS[:place]) for place in range(len(LENGTHS))]
    return [(ids[:, at : at + n], torch.tensor([at])) for at, n in zip(starts, LENGTHS, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "kind", "precision"),
    [
        pytest.param(*row, marks=() if row[1:] in BY_DAY else pytest.mark.nightly)
        for row in itertools.product(TARGETS, KINDS, ("int8dyn", "int4w"))
    ],
)
def test_prompts_of_other_lengths_and_their_tokens_are_near(target: str, kind: str, precision: str) -> None:
    workload = tiny(kind, width=GROUP // 4)
    shape: Shape = workload.model.shape  # type: ignore[union-attr,assignment]
    assert shape.hidden % GROUP == 0
    artifact = xb.lower(program_of(workload), f"{target}?precision={precision}")
    if target != WIDENS:
        assert artifact.placement.arithmetic is not None
        assert sum(row.count for row in artifact.placement.arithmetic.low) >= 3 * shape.layers
    with xb.load(artifact, trust=True) as session:
        for _ in range(2):
            session.reset()
            for call, want in zip(calls(), logits_of(workload, calls()), strict=True):
                got = torch.as_tensor(session(*call))
                assert float(torch.nn.functional.cosine_similarity(got, want)) > 0.9
                assert float((got - want).abs().max()) > 1e-5 * float(want.abs().max()), "nothing was quantised"


@pytest.mark.parametrize("precision", ["int8", "int8dyn", "int4w"])
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


def test_hidden_scores_leave_the_others_their_steps() -> None:
    """In one scale with a score of −10,000, all others would be the same number of 8 bits."""

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scores, self.values = torch.nn.Linear(GROUP, 8), torch.nn.Linear(8, GROUP)

        def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
            return self.values(torch.where(seen, self.scores(x), -1e4).softmax(-1))

    torch.manual_seed(0)
    net, x, seen = Masked().eval(), 3 * torch.randn(4, GROUP), torch.arange(8) < 6
    artifact = xb.lower(xb.capture(net, (x, seen)), "onnxruntime.cpu?precision=int8")
    with xb.load(artifact) as session, torch.no_grad():
        wanted = net(x, seen)
        error = torch.as_tensor(session(x, seen)) - wanted
    assert float(error.norm() / wanted.norm()) < 0.05


@pytest.mark.slow
def test_norms_stay_in_float_where_there_is_an_attention() -> None:
    """OpenVINO's quantiser gave the mean of squares 256 steps: a quarter of the logits' size was error."""
    workload = tiny("qwen", width=GROUP // 4)
    artifact = xb.lower(program_of(workload), "openvino?precision=int8")
    with xb.load(artifact) as session:
        for call, want in zip(calls(), logits_of(workload, calls()), strict=True):
            error = torch.as_tensor(session(*call)) - want
            assert float(error.norm() / want.norm()) < 0.1
