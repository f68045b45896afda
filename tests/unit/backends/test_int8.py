"""Quantised targets: calibrated on the workload's inputs, smaller, and judged by their own tolerance."""

from __future__ import annotations

import pytest
import torch

import cross_backend as xb
from cross_backend.registry import resolve
from cross_backend.tensors import to_numpy
from cross_backend.verify.compare import compare_outputs, precision_of


@pytest.fixture(scope="module")
def net() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).eval(), torch.randn(
        1, 64
    )


@pytest.mark.parametrize(
    ("backend", "delegates"),
    [
        pytest.param("xnnpack", {"XnnpackBackend": 1}, marks=pytest.mark.slow),
        ("atalla", {}),
        pytest.param("executorch.atalla", {"AtallaBackend": 1}, marks=pytest.mark.slow),
    ],
)
def test_int8_is_smaller_and_near(
    net: tuple[torch.nn.Module, torch.Tensor], backend: str, delegates: dict[str, int]
) -> None:
    model, x = net
    program = xb.capture(model, (x,))
    full, quantised = xb.lower(program, backend), xb.lower(program, f"{backend}?precision=int8")
    assert quantised.size_bytes < full.size_bytes / 2
    assert quantised.placement.delegates == delegates and quantised.placement.left_count == 0
    with xb.load(quantised) as session:
        comparison = compare_outputs({"expected": [model(x).detach().numpy()]}, [[session(x.numpy())]], "int8")
    assert comparison.verdict
    assert 15 < comparison.sqnr_db < 80, "an exact result would mean that nothing was quantised"


def test_a_target_says_its_precision() -> None:
    assert precision_of(resolve("xnnpack").options) == "fp32"
    assert precision_of(resolve("xnnpack?precision=int8").options) == "int8"
    assert precision_of(resolve("openvino?precision=bf16").options) == "bf16"


@pytest.mark.slow
def test_an_extent_that_may_be_one_stays_so() -> None:
    net, x = (
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval(),
        torch.ones(3, 8),
    )
    program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=1, max=8)},))
    with xb.load(xb.lower(program, "atalla?precision=int8")) as session:
        for rows in (1, 8):
            found = torch.from_numpy(to_numpy(session(torch.ones(rows, 8))))
            torch.testing.assert_close(found, net(torch.ones(rows, 8)), rtol=0.1, atol=0.1)


class Twice(torch.nn.Module):
    """One operator that is called twice, as its weights have two readers; norms of equal weights share them, too."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        norms = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 8)) for _ in "ab"))
        made = {"conv": torch.nn.Conv2d(3, 3, 3, padding=1), "linear": torch.nn.Linear(8, 8), "norms": norms}
        self.layer = made[kind]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        called: torch.Tensor = self.layer(self.layer(x).relu())
        return called


@pytest.mark.parametrize(("kind", "shape"), [("conv", (1, 3, 8, 8)), ("linear", (2, 4, 8)), ("norms", (4, 8))])
def test_weights_with_two_readers(kind: str, shape: tuple[int, ...]) -> None:
    """ONNX Runtime opens no file of int8 in which two operators read the same weights."""
    model, x = Twice(kind).eval(), torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    with xb.load(xb.lower(xb.capture(model, (x,)), "cpu?precision=int8")) as session:
        torch.testing.assert_close(torch.from_numpy(to_numpy(session(x))), model(x), rtol=0.1, atol=0.15)


def test_an_operator_that_reads_a_constant_twice_gets_two_copies() -> None:
    """As a norm does whose weight and bias are equal, and were merged."""
    import onnx

    from cross_backend.backends.onnxruntime._quantize import _part_shared

    nodes = [onnx.helper.make_node("LayerNormalization", [x, "c", "c"], [y]) for x, y in (("x", "y"), ("y", "z"))]
    graph = onnx.helper.make_graph(nodes, "norms", [], [], [onnx.helper.make_tensor("c", 1, [2], [0.0, 0.0])])
    _part_shared(graph, {"LayerNormalization"})
    names = [tensor.name for tensor in graph.initializer]
    read = [name for node in graph.node for name in node.input[1:]]
    assert len(set(names)) == len(names) == 5 and len(set(read)) == 4 and set(read) <= set(names)
