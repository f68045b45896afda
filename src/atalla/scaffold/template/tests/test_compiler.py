"""Compiler: what it makes is right against eager, on every executor; what it refuses is told with the reason."""

from __future__ import annotations

import nets
import numpy as np
import pytest
import torch
from torch.nn import functional

from mychip.blob import Op, write
from mychip.compiler import compile_program, normalize
from mychip.errors import CompileError
from mychip.executors import EXECUTORS
from mychip.reader import read
from mychip.simulator import Hardware, cycles


def compiled(net: nets.Net) -> bytes:
    module, inputs = net
    return write(compile_program(normalize(torch.export.export(module, inputs))))


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", nets.runs())
def test_right_against_eager(name: str, executor: str) -> None:
    net = nets.runs()[name]
    opened = EXECUTORS[executor](compiled(net))
    for _ in range(2):  # a second run computes the same
        made = opened.run([one.numpy() for one in net[1]])
        wanted = nets.eager(net)
        assert len(made) == len(wanted)
        for one, right in zip(made, wanted, strict=True):
            np.testing.assert_allclose(one.ravel(), right.numpy().ravel(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", nets.runs())
def test_the_simulator_has_the_bits_of_the_kernels(name: str) -> None:
    net = nets.runs()[name]
    given = [one.numpy().copy() for one in net[1]]
    given[0].ravel()[:3] = np.inf, -np.inf, np.nan
    kernels, simulated = (EXECUTORS[one](compiled(net)).run(given) for one in ("kernels", "simulator"))
    for one, other in zip(kernels, simulated, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (torch.sigmoid, "aten::sigmoid: The chip has no instruction for it"),
        (lambda x: x.double() + 1.0, "aten::_to_copy: The chip has no instruction for it"),
        (lambda x: x + x[:1], "The chip broadcasts nothing"),
        (lambda x: x * 2.0, "The chip broadcasts nothing"),
        (lambda x: torch.add(x, x, alpha=2), "scales nothing"),
        (lambda x: functional.linear(x, x[0]), "must be a matrix"),
        (lambda x: torch.relu(x.bfloat16()), "float32 only"),
        (lambda x: torch.relu(x.mT.contiguous().mT), "row by row"),
        (lambda x: torch.relu(x[:0]), "at least one row"),
    ],
)
def test_what_is_refused_is_told(function, reason: str) -> None:
    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.raises(CompileError, match=reason):
        compiled((Net(), (torch.ones(3, 4),)))


def test_sizes_that_are_not_known_are_refused() -> None:
    batch = {0: torch.export.Dim("batch")}
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2, 4),), dynamic_shapes=(batch,))
    with pytest.raises(CompileError, match="one size of every tensor"):
        compile_program(normalize(program))


def test_a_buffer_that_changes_is_refused() -> None:
    class Counts(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(x)
            return x + self.count

    with pytest.raises(CompileError, match="changes a buffer"):
        compiled((Counts(), (torch.ones(4),)))


def test_a_layer_is_one_instruction_with_the_cycles_of_its_tiles() -> None:
    blob = read(compiled(nets.runs()["mlp"]))
    assert [one.op for one in blob.instructions] == [Op.LINEAR, Op.RELU, Op.LINEAR]
    # 17 rows are 2 tiles of 16, 40 columns are 3, 33 deep; then 680 elements; then 2 × 1 tiles, 40 deep.
    fast_memory = Hardware(rows=16, columns=16, lanes=16, bytes_per_cycle=1 << 20)
    assert cycles(blob, fast_memory) == 2 * 3 * 33 + 43 + 2 * 1 * 40
    assert cycles(blob, Hardware(bytes_per_cycle=1)) > cycles(blob)
