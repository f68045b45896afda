"""Delegate: ExecuTorch hands the chip its nodes, keeps the others, and runs both; no damaged blob is opened."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import nets
import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.lowered_backend_module import get_lowered_submodules

from mychip.blob import MAGIC
from mychip.delegate import MychipPartitioner, load

ALL = {**nets.runs(), **nets.mixed()}
PARTS = {"softmax": (2, ["aten._softmax.default"]), "double": (1, ["aten.addmm.default"])}
"""Net → its partitions, and what must be left, among other operators."""


class Lowered(NamedTuple):
    parts: int
    left: set[str]
    """Operators that other kernels do."""
    data: bytes


@functools.cache
def lowered(name: str) -> Lowered:
    module, inputs = ALL[name]
    edge = to_edge_transform_and_lower(torch.export.export(module, inputs), partitioner=[MychipPartitioner()])
    graph = edge.exported_program().graph_module
    left = {str(node.target.__name__) for node in graph.graph.nodes if node.op == "call_function"}
    return Lowered(len(get_lowered_submodules(graph)), left, bytes(edge.to_executorch().buffer))


class Method:
    """A file in ExecuTorch's runtime, which holds our delegate by then."""

    def __init__(self, data: bytes, folder: Path) -> None:
        from executorch.extension.pybindings import _C

        load()
        path = folder / "net.pte"
        path.write_bytes(data)
        self._program = _C._load_program(str(path))  # must live as long as its method
        self._method = self._program.load_method("forward")

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return self._method(list(inputs))


@pytest.mark.parametrize("name", ALL)
def test_right_against_eager(name: str, tmp_path: Path) -> None:
    assert MAGIC in lowered(name).data
    method = Method(lowered(name).data, tmp_path)
    for _ in range(2):
        made = method(*(one.clone() for one in ALL[name][1]))
        for one, right in zip(made, nets.eager(ALL[name]), strict=True):
            torch.testing.assert_close(one, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", PARTS)
def test_what_is_not_the_chips_is_left(name: str) -> None:
    parts, operators = PARTS[name]
    assert lowered(name).parts == parts
    assert lowered(name).left >= set(operators)


def test_a_damaged_blob_is_refused(tmp_path: Path) -> None:
    data = bytearray(lowered("linear").data)
    data[data.index(MAGIC) + 60] ^= 1
    with pytest.raises(RuntimeError, match="23"):  # InvalidProgram
        Method(bytes(data), tmp_path)


@pytest.mark.parametrize("wrong", [torch.ones(1, 6), torch.ones(1, 5, dtype=torch.float64), torch.ones(5)])
def test_inputs_of_another_kind_are_refused(wrong: torch.Tensor, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        Method(lowered("linear").data, tmp_path)(wrong)
