"""As Python: captured programs as torch code that computes and is exported as the same."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from atalla.fuzz.graph import Graph, module_source
from atalla.fuzz.minimize import minimize
from cross_backend.localization.as_python import written
from cross_backend.localization.given_leaf import COUNTED, DRAWN, TENTHS, GivenLeaf
from cross_backend.localization.plainer_leaves import PlainerLeaves
from cross_backend.localization.text_values import built, called, values_of


def operators(program: torch.export.ExportedProgram) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def inner(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.max() > 2, lambda x: x * 2, lambda x: x - 3, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x.relu(), (x,))


def check(module: nn.Module, *inputs: torch.Tensor) -> str:
    module.eval()
    program = torch.export.export(module, inputs)
    graph = written(program, inputs)
    model, given = built(graph)
    with torch.no_grad():
        torch.testing.assert_close(model(*given)[0], module(*inputs), rtol=0, atol=0)
    assert operators(torch.export.export(model, given)) == operators(program)
    return module_source(graph)


def test_a_network_reads_as_a_user_writes_it() -> None:
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(), nn.MaxPool2d(2), nn.Flatten())
    text = check(nn.Sequential(*layers, nn.Linear(128, 4), nn.LayerNorm(4)), torch.randn(1, 3, 8, 8))
    for name in ("conv2d", "hardswish", "linear"):
        assert f"torch.nn.functional.{name}(" in text
    assert "torch.ops" not in text


def test_resizing_is_interpolate() -> None:
    class Resized(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.interpolate(x, size=(5, 5), mode="bilinear", align_corners=True)

    text = check(Resized(), torch.randn(1, 1, 4, 4))
    assert 'torch.nn.functional.interpolate(x0, size=[5, 5], mode="bilinear", align_corners=True)' in text


def test_branches_are_functions() -> None:
    text = check(Branches(), torch.ones(2, 3))
    assert text.count("def branch") == 4 and "torch.cond(v1, branch" in text


@pytest.mark.slow
def test_the_lines_of_a_branch_take_the_place_of_its_condition() -> None:
    inputs = (torch.ones(2, 3),)
    graph = written(torch.export.export(Branches(), inputs), inputs)

    def fails(one: Graph) -> bool:
        return values_of(one) is not None and "torch.cond" in module_source(one)

    small = minimize(graph, fails, 20, PlainerLeaves(), 60)
    assert [node.operator for node in small.nodes if node.operator] == ["torch.cond"] and len(small.functions) == 2
    model, given = built(small)
    assert len(model(*given)) == 1 and "branch2" not in module_source(small)


def test_leaves_are_written_as_they_are() -> None:
    tensors = (
        torch.tensor([0.1, float("inf"), -1e-30]),
        torch.tensor([[1, -2]], dtype=torch.int32),
        torch.ones((), dtype=torch.bool),
        torch.randn(20, 20, dtype=torch.float64),
        torch.randn(3, 2).to(torch.bfloat16),
        torch.empty(0, 2),
    )
    for number, tensor in enumerate(tensors):
        found = called(GivenLeaf.of(f"x{number}", tensor).source, {})
        assert found.dtype == tensor.dtype and found.shape == tensor.shape and torch.equal(found, tensor)


def test_a_smaller_leaf_holds_the_first_values() -> None:
    leaf = GivenLeaf.of("x0", torch.arange(6.0).reshape(2, 3))
    smaller = GivenLeaf(**{**vars(leaf), "shape": (1, 2)})
    assert smaller.source == "torch.tensor([[0.0, 1.0]])"
    kinds = {kind: GivenLeaf(**{**vars(leaf), "kind": kind}).source for kind in (COUNTED, DRAWN, TENTHS)}
    assert kinds[COUNTED] == "torch.arange(6.0).reshape(2, 3)" and kinds[DRAWN] == "rand(0, 2, 3)"
