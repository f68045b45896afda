"""Search: a fault that is planted is found, within the bound, and nothing is found where nothing is wrong."""

from __future__ import annotations

import copy
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from cross_backend.cache import Cache
from cross_backend.comparison.settings import Settings
from cross_backend.errors import UnsupportedError, UsageError
from cross_backend.localization.found import Culprit, Localized
from cross_backend.localization.judging import cases_of
from cross_backend.localization.keep_out import keep_out
from cross_backend.localization.localize import localize
from cross_backend.localization.parts import RIGHT, Parts
from cross_backend.localization.running import Runner
from cross_backend.localization.search import bound_of
from cross_backend.localization.torch_whole import TorchWhole
from cross_backend.program.capture import capture
from cross_backend.program.captured import Captured
from cross_backend.program.flattening import flatten
from cross_backend.program.writing import write_capture, write_program
from cross_backend.tensors import load_tensors
from cross_backend.workloads import Workload

TARGET = "cpu"


class Deep(nn.Module):
    """Twelve operators in two branches."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.hardswish(self.one(x), inplace=True)
        z = torch.sigmoid(self.two(y)) * y + y.clamp(-0.2, 0.3)
        return self.head(F.avg_pool2d(z, 2).mean((2, 3))).tanh()


def _stored(program: Any, folder: Path) -> Captured:
    folder.mkdir()
    return write_program(program, "deep", folder)


@pytest.fixture
def deep() -> Any:
    torch.manual_seed(0)
    return flatten(capture(Deep(), (torch.rand(1, 3, 8, 8),)))


def _searched(captured: Captured, tmp_path: Path, **more: Any) -> Localized:
    return localize(captured, TARGET, cache=Cache(tmp_path / "cache"), settings=Settings(), **more)


class _Alone(TorchWhole):
    """Counts the threads that cut parts at the same time."""

    inside = most = 0

    def write(self, *given: Any, **more: Any) -> Captured:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.2)
        made = super().write(*given, **more)
        self.inside -= 1
        return made


def test_parts_are_cut_one_at_a_time(deep: Any, tmp_path: Path) -> None:
    captured, cache = _stored(deep, tmp_path / "right"), Cache(tmp_path / "cache")
    case, *_ = cases_of(load_tensors(captured.sample_path), captured.inputs, "fp32")
    whole = _Alone(captured.program(), case.known.inputs)
    values = whole.values(case.known.inputs)
    with ExitStack() as stack:
        runner = Runner(cache, Settings(), 600, stack)
        parts = Parts(whole, captured, runner, [TARGET], case, values, 2, lambda _doing, _share: None)
        tried = parts.try_all([("the first", [0]), ("the second", [1])])
    assert [one.trial.outcome for one in tried] == [RIGHT, RIGHT]
    assert whole.most == 1, "torch traces for one thread at a time"


def _node(program: Any, name: str) -> Any:
    return next(node for node in program.graph.nodes if node.name == name)


def _clamp(program: Any) -> None:
    _node(program, "clamp").args = (*_node(program, "clamp").args[:1], -0.2, 0.1)


def _pool(program: Any) -> None:
    _node(program, "avg_pool2d").target = torch.ops.aten.max_pool2d.default


def _weight(program: Any) -> None:
    with torch.no_grad():
        program.state_dict["two.weight"].copy_(program.state_dict["two.weight"].flip(-1))


FAULTS = {"clamp": _clamp, "avg_pool2d": _pool, "conv2d_1": _weight}


@pytest.mark.slow
@pytest.mark.parametrize("node", ["clamp", *(pytest.param(one, marks=pytest.mark.slow) for one in [*FAULTS][1:])])
def test_a_planted_fault_is_found_within_the_bound(node: str, deep: Any, tmp_path: Path) -> None:
    wrong = copy.deepcopy(deep)
    FAULTS[node](wrong)
    wrong.graph_module.recompile()
    right, planted = _stored(deep, tmp_path / "right"), _stored(wrong, tmp_path / "wrong")
    found = _searched(right, tmp_path, lowered=planted)
    assert found.culprit is Culprit.OPERATOR and found.is_sure
    assert [one.node for one in found.operators] == [node]
    assert found.operators[0].line is not None and "test_search.py" in found.operators[0].line
    assert found.lowerings <= found.bound == bound_of(found.count)
    rows = {row.node: row for row in found.nodes}
    assert rows[node].parts and rows["tanh"].error > 100 * rows["tanh"].rounding and not rows["tanh"].parts
    assert any("--keep-out" in text for text in found.advice)
    again = _searched(right, tmp_path, lowered=planted)
    assert all(trial.cached for trial in again.trials), "by content"


@pytest.mark.slow
def test_bisecting_finds_it_too_where_the_backend_does_not_show_its_values(
    deep: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cross_backend.localization.search.MOST_SHOWN_BYTES", 0)
    wrong = copy.deepcopy(deep)
    _clamp(wrong)
    wrong.graph_module.recompile()
    right, planted = _stored(deep, tmp_path / "right"), _stored(wrong, tmp_path / "wrong")
    found = _searched(right, tmp_path, lowered=planted)
    assert found.culprit is Culprit.OPERATOR and [one.node for one in found.operators] == ["clamp"]
    assert found.lowerings <= found.bound and not found.nodes
    assert any(trial.what.startswith("operators 1 to") for trial in found.trials)


def test_nothing_is_found_where_nothing_is_wrong(deep: Any, tmp_path: Path) -> None:
    found = _searched(_stored(deep, tmp_path / "right"), tmp_path)
    assert found.culprit is Culprit.NOTHING and not found.is_sure
    assert (found.lowerings, found.operators, found.advice) == (0, (), ())
    assert "nothing to localise" in found.says


def test_a_right_target_of_a_program_with_state_has_nothing_to_localise(tmp_path: Path) -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    captured = _stored(flatten(capture(Counter(), (torch.rand(2),))), tmp_path / "right")
    assert _searched(captured, tmp_path).culprit is Culprit.NOTHING


def test_nodes_of_an_onnx_file_stand_for_lines(tmp_path: Path) -> None:
    """OpenVINO takes the softmax of opset 11 along one axis, where the standard flattens the rest."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"], axis=1),
        helper.make_node("Exp", ["b"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, kind, [2, 3, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "softmax", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)
    onnx.save(model, tmp_path / "softmax.onnx")
    folder = tmp_path / "captured"
    folder.mkdir()
    captured = write_capture(Workload("softmax", tmp_path / "softmax.onnx"), folder)
    found = localize(captured, "openvino", cache=Cache(tmp_path / "cache"), settings=Settings())
    (suspect,) = found.operators
    assert found.is_sure
    assert (suspect.node, suspect.operator, suspect.line) == ("b", "Softmax", None)
    assert suspect.attributes == {"axis": "1"}


@pytest.mark.slow
def test_an_operator_that_is_kept_out_runs_elsewhere(deep: Any, tmp_path: Path) -> None:
    captured, cache = _stored(deep, tmp_path / "right"), Cache(tmp_path / "cache")
    kept = keep_out(captured, TARGET, ["clamp"], "eager", cache=cache, settings=Settings())
    assert kept.right and kept.count == 3 and kept.elsewhere == "eager"
    assert kept.parts_ms > 0 and kept.whole_ms > 0
    with pytest.raises(UnsupportedError, match="name a target for them with --against"):
        keep_out(captured, TARGET, ["clamp"], cache=cache, settings=Settings())
    with pytest.raises(UsageError, match="unknown operator 'nothing'"):
        keep_out(captured, TARGET, ["nothing"], "eager", cache=cache, settings=Settings())
