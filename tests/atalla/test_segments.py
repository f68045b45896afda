"""Segments: who runs what of a graph, and why; and the lines of Python that they come from."""

from __future__ import annotations

import torch

import atalla
from atalla.blob.reader import parse
from atalla.blob.segments import describe, segments
from tests.atalla.test_compile import compiled, same


def test_a_graph_without_gaps_is_one_segment() -> None:
    (only,) = segments(parse(compiled("mlp")[0].data))
    assert (only.first, only.operations, only.is_fallback) == (0, ("GEMM", "GEMM", "SOFTMAX"), False)


def test_what_the_accelerator_lacks_is_a_segment_of_its_own_with_its_reason() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Linear(6, 6)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = torch.relu(self.a(x))
            values, places = y.sort(-1)
            return torch.tanh(values.cumprod(1)), places

    torch.manual_seed(0)
    net, x = Net(), torch.randn(4, 6)
    made = atalla.compile(torch.export.export(net, (x,)))
    found = segments(parse(made.data))
    assert [one.operations for one in found if one.is_fallback] == [("aten.sort.default",), ("aten.cumprod.default",)]
    assert [one.is_fallback for one in found] == [False, True, True, False]
    assert all(one.reason == fallback.reason for one, fallback in zip(found[1:3], made.fallbacks, strict=True))
    first = net.forward.__code__.co_firstlineno
    assert [one.line for one in found[1:3]] == [f"test_segments.py:{first + n} in forward" for n in (2, 3)]
    rows = parse(made.data).instructions
    assert all(row.node and "test_segments.py:" in row.line for row in rows[:-1])
    at = [one.first for one in found]
    assert at[0] == 0 and at == sorted(at) and [rows[n].op.name for n in at[1:3]] == ["CALL_HOST"] * 2
    assert sum(len(one.operations) for one in found) == len(rows) - 1
    lines = list(describe(found))
    assert lines[0] == "segment  0  accelerator  1 GEMM"
    assert lines[1].startswith("segment  1  fallback     aten.sort.default: ") and "test_segments.py:" in lines[1]
    with torch.no_grad():
        same(atalla.load(made.data, isa="reference").run((x,)), list(net(x)), 1e-6)


def test_a_line_is_the_users_and_names_the_module() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(6, 6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x) * 2.0

    made = atalla.compile(torch.export.export(Net(), (torch.randn(4, 6),)))
    line = Net.forward.__code__.co_firstlineno + 1
    (gemm, *_) = parse(made.data).instructions
    assert gemm.line == f"test_segments.py:{line} in forward (body.0)"
