"""Models whose arguments and outputs are structures: captured, lowered, loaded by path and from bundles, and called."""

from __future__ import annotations

import collections
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import cross_backend as xb
from cross_backend.bundling import write_bundle
from cross_backend.cache import Cache
from cross_backend.errors import CaptureError
from cross_backend.lowering.free_batch import capture_free
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import Captured
from cross_backend.program.flattening import flatten
from cross_backend.program.writing import write_capture, write_program
from cross_backend.registry import resolve
from cross_backend.workloads import Workload, find_workload
from cross_backend.workloads.batching import batched

X, Y = torch.linspace(-1, 1, 8).reshape(2, 4), torch.linspace(0, 2, 8).reshape(2, 4)


class Extremes(NamedTuple):
    """Not registered with torch, as users' are not."""

    low: torch.Tensor
    high: torch.Tensor


class Net(nn.Module):
    """Arguments of any kind; outputs that no runtime knows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, pair: tuple[torch.Tensor, dict[str, torch.Tensor]], scale: int = 1, *, mask: Any = None) -> Any:
        y = self.linear(pair[0]) * scale + pair[1]["bias"]
        if mask is not None:
            y = y * mask
        return collections.OrderedDict(
            {"y": y, "cache": None, "rows": len(y), "extremes": Extremes(y.amin(1), y.amax(1)), "top": y.max(1)}
        )


class Registered:
    """A class of the user's own that torch was told of; who loads the artifact does not have it."""

    def __init__(self, **parts: Any) -> None:
        self.parts = parts


class GivesRegistered(nn.Module):
    def forward(self, x: torch.Tensor) -> Registered:
        return Registered(double=x * 2, sine=x.sin())


torch.utils._pytree.register_pytree_node(
    Registered,
    lambda one: (list(one.parts.values()), tuple(one.parts)),
    lambda values, names: Registered(**dict(zip(names, values, strict=True))),
    serialized_type_name="tests.Registered",
    flatten_with_keys_fn=lambda one: (
        [(torch.utils._pytree.GetAttrKey(name), part) for name, part in one.parts.items()],
        tuple(one.parts),
    ),
)


@pytest.fixture(scope="module")
def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net().eval()


def assert_like_eager(net: nn.Module, given: Any, *args: Any, **kwargs: Any) -> None:
    with torch.no_grad():
        want = net(*args, **kwargs)
    assert list(given) == list(want) and given["cache"] is None and given["rows"] == want["rows"]
    torch.testing.assert_close(given["y"], want["y"])
    assert given["extremes"]._fields == ("low", "high")
    torch.testing.assert_close(given["extremes"].high, want["extremes"].high)
    torch.testing.assert_close(given["top"].indices, want["top"].indices)


@pytest.mark.parametrize("target", ["torch", "cpu"])
def test_a_session_is_called_as_the_model_is(target: str, net: nn.Module, tmp_path: Path) -> None:
    program = xb.capture(net, ((X, {"bias": Y}), 3), kwargs={"mask": X > 0})
    artifact = xb.lower(program, target, output_dir=tmp_path)
    pair, mask = (Y, {"bias": X}), Y > 1
    with xb.load(artifact.payload_path) as session:
        assert_like_eager(net, session(pair, 3, mask=mask), pair, 3, mask=mask)
        assert_like_eager(net, session(pair, mask=mask), pair, 3, mask=mask)
        assert_like_eager(net, session(Y, X, mask), pair, 3, mask=mask)
        assert [spec.name for spec in session.inputs] == ["pair_0", "pair_1_bias", "mask"]


def test_a_pt2_file_with_keyword_inputs_is_a_workload(tmp_path: Path) -> None:
    plain = _Plain()
    torch.export.save(torch.export.export(plain, (X,), {"bias": Y}), tmp_path / "plain.pt2")
    (tmp_path / "out").mkdir()
    captured = write_capture(find_workload(str(tmp_path / "plain.pt2")).build(), tmp_path / "out")
    artifact = lower(captured, resolve("cpu"), Cache()).artifact
    with xb.load(artifact) as session:
        given = session(Y, bias=X)
    assert list(given) == ["y"]
    torch.testing.assert_close(given["y"], Y.sin() + X)


class _Plain(nn.Module):
    def forward(self, x: torch.Tensor, bias: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x.sin() + bias}


class _Inside(nn.Module):
    def forward(self, batch: dict[str, torch.Tensor], *, more: list[torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"y": batch["x"].sin() + more[0]}


def test_a_class_that_torch_knows_becomes_a_dict(tmp_path: Path, run_python: Callable[..., str]) -> None:
    xb.lower(xb.capture(GivesRegistered(), (X,)), "cpu", name="net", output_dir=tmp_path)
    code = """
import sys, numpy as np, cross_backend as xb
with xb.load(sys.argv[1]) as session:
    print({name: y.shape for name, y in session(np.ones((2, 4), np.float32)).items()})
"""
    assert run_python(code, str(tmp_path / "net_onnxruntime.onnx")).strip() == "{'double': (2, 4), 'sine': (2, 4)}"


def test_a_bundle_keeps_the_structure_and_needs_no_torch(
    net: nn.Module, tmp_path: Path, run_python: Callable[..., str]
) -> None:
    (tmp_path / "captured").mkdir()
    captured = write_program(xb.capture(net, ((X, {"bias": Y}),)), "net", tmp_path / "captured")
    artifact = lower(captured, resolve("cpu"), Cache()).artifact
    place = write_bundle(captured, [(artifact, "net_cpu", "CPU", {"tolerance": 1e-4})], {}, {}, tmp_path)
    assert json.loads((place / "manifest.json").read_text())["version"] == 1, "a key was added, none was changed"
    code = """
import sys, numpy as np, cross_backend as xb
with xb.load_best(sys.argv[1]) as session:
    given = session((np.ones((2, 4), np.float32), {"bias": np.zeros((2, 4), np.float32)}))
    print(*given, type(given["extremes"]).__name__, given["rows"], type(given["y"]).__name__, "torch" in sys.modules)
"""
    assert run_python(code, str(place)).strip() == "y cache rows extremes top Extremes 2 ndarray False"


def test_programs_of_one_graph_and_two_structures_are_two(tmp_path: Path) -> None:
    """Otherwise the second would be served from the cache with the first one's names."""

    class Named(nn.Module):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {self.name: x + 1}

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, two = (write_program(xb.capture(Named(name), (X,)), "net", tmp_path / name) for name in ("a", "b"))
    assert one.digest != two.digest


def test_a_workload_with_keyword_inputs_has_batches(net: nn.Module, tmp_path: Path) -> None:
    workload = Workload("net", net, ((X[:1], {"bias": Y[:1]}), 2), kwargs={"mask": X[:1] > 0})
    captured = write_capture(batched(workload, 3), tmp_path)
    assert [spec.shape[0] for spec in captured.inputs] == [3, 3, 3]
    assert Captured.read(tmp_path).structure == captured.structure
    assert captured.structure is not None and captured.structure.give([X] * 5)["rows"] == 3


def test_a_free_batch_may_be_inside_of_a_structure() -> None:
    workload = Workload("inside", _Inside(), ({"x": X[:1]},), kwargs={"more": [Y[:1]]})
    program = flatten(capture_free(workload))
    for made in (program, program.run_decompositions()):  # torch writes down anew what it knows of the extents
        (given,) = made.module()(X.repeat(3, 1), Y.repeat(3, 1))
        torch.testing.assert_close(given, (X.sin() + Y).repeat(3, 1))
    assert [str(name) for name in program.graph_signature.user_inputs] == ["batch_x", "more_0"]


SOURCE = """
import torch


class Net(torch.nn.Module):
    def forward(self, x, *, bias):
        return {"y": x + bias}


def with_names():
    return Net(), (torch.ones(1, 3),), {"bias": torch.ones(1, 3)}


def by_name_only():
    return Net(), (), {"x": torch.ones(1, 3), "bias": torch.ones(1, 3)}


def too_many():
    return Net(), (), {}, {}
"""


@pytest.mark.parametrize("function", ["with_names", "by_name_only"])
def test_a_users_function_gives_keyword_inputs_third(function: str, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SOURCE)
    (tmp_path / "out").mkdir()
    captured = write_capture(find_workload(f"{tmp_path / 'net.py'}:{function}").build(), tmp_path / "out")
    assert [spec.name for spec in captured.inputs] == ["x", "bias"]
    assert captured.structure is not None
    ones = np.ones((1, 3), np.float32)
    assert len(captured.structure.take((ones,), {"bias": ones})) == 2


def test_what_a_users_function_gives_is_told_where_it_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(SOURCE)
    with pytest.raises(
        CaptureError, match=r"must return \(module, inputs\) or \(module, inputs, kwargs\), not \(Net, tup"
    ):
        find_workload(f"{tmp_path / 'net.py'}:too_many").build()
