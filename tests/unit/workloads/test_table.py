"""Workloads: the table, what a name means, and what is said when it means nothing."""

from __future__ import annotations

import importlib
import zipfile
from pathlib import Path

import pytest
import torch

from cross_backend.errors import CaptureError, CrossBackendError, UsageError
from cross_backend.workloads import WORKLOADS, Workload, find_workload, load_checkpoint

MODEL = """
import torch
from cross_backend.workloads import Workload
from cross_backend.errors import UnavailableError
value = 3
def pair(): return torch.nn.Linear(4, 2), (torch.ones(1, 4),)
def bare(): return torch.nn.Linear(4, 2), torch.ones(1, 4)
def listed(): return torch.nn.Linear(4, 2), [torch.ones(1, 4)]
def training(): return torch.nn.Dropout().train(), torch.ones(1, 4)
def whole(): return Workload("mine", torch.nn.Linear(4, 2), (torch.ones(1, 4),))
def nothing(): return None
def number(): return 3, 4
def fails(): raise ValueError("two\\nlines")
def ours(): raise UnavailableError("needs x", "pip install x")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my model.py"
    path.write_text(MODEL)
    return path


def test_every_row_leads_to_a_builder() -> None:
    assert list(WORKLOADS) == sorted(WORKLOADS)
    for row in WORKLOADS.values():
        module, _, function = row.build.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
        assert row.summary and row.source and row.licence and row.family
        assert row.parameters > 0 and row.flops > 0


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_builtin_is_found_without_building_it(name: str) -> None:
    source = find_workload(name)
    assert (source.text, source.name, source.weights) == (name, name, None)
    assert source.identity == find_workload(name).identity
    assert source.identity != find_workload(name, "IMAGENET1K_V1").identity


def test_the_identity_follows_the_files_of_a_folder_of_weights(tmp_path: Path) -> None:
    identities = set()
    for name, content in (("a.bin", "1"), ("a.bin", "2"), ("b.bin", "2")):
        (tmp_path / name).write_text(content)
        identities.add(find_workload("linear_regression", str(tmp_path)).identity)
    assert len(identities) == 3


def test_the_identity_follows_the_weights_bytes(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    identities = []
    for content in (b"a", b"b", b"a"):
        path.write_bytes(content)
        identities.append(find_workload("linear_regression", str(path)).identity)
    assert identities[0] == identities[2] != identities[1]


@pytest.mark.parametrize("function", ["pair", "bare", "listed"])
def test_a_function_in_a_file_is_a_workload(file: Path, function: str) -> None:
    source = find_workload(f"{file}:{function}")
    assert source.identity is None, "only running the code tells what it builds"
    assert source.name == f"my_model_{function}"
    built = source.build()
    assert built.name == source.name
    assert isinstance(built.model, torch.nn.Module)
    assert [tuple(x.shape) for x in built.inputs] == [(1, 4)]


def test_a_function_may_give_a_whole_workload(file: Path) -> None:
    built = find_workload(f"{file}:whole").build()
    assert (built.name, type(built)) == ("mine", Workload)


def test_models_are_put_into_evaluation_mode(file: Path) -> None:
    model = find_workload(f"{file}:training").build().model
    assert isinstance(model, torch.nn.Module) and not model.training


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        ("nothing", CaptureError, r"must return \(module, inputs\).*, not NoneType"),
        ("number", CaptureError, r"must return \(module, inputs\).*, not \(int, int\)"),
        ("fails", CaptureError, r"failed: .*my model\.py:13: ValueError: two"),
        ("value", CaptureError, "not callable"),
        ("ours", CrossBackendError, "^needs x; pip install x$"),
        ("pairs", UsageError, r"unknown function in .*: 'pairs'\. Did you mean 'pair'.*whole"),
    ],
)
def test_a_function_that_is_wrong_says_how(
    file: Path, function: str, kind: type[CrossBackendError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        find_workload(f"{file}:{function}").build()
    assert "\n" not in str(caught.value)


def test_a_file_that_does_not_run_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def (")
    with pytest.raises(CaptureError, match=r"broken\.py:f failed: .*invalid syntax"):
        find_workload(f"{tmp_path}/broken.py:f").build()


@pytest.mark.parametrize("function", ["pair", "whole"])
def test_weights_go_into_the_users_model(file: Path, tmp_path: Path, function: str) -> None:
    wanted = torch.nn.Linear(4, 2)
    torch.save(wanted.state_dict(), tmp_path / "weights.pt")
    model = find_workload(f"{file}:{function}", str(tmp_path / "weights.pt")).build().model
    assert isinstance(model, torch.nn.Linear)
    assert torch.equal(model.weight, wanted.weight)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("resnet5", r"unknown model 'resnet5'\. Did you mean 'resnet50'.*file\.py:function, file\.pt2 or file\.onnx"),
        ("none.onnx", r"none\.onnx does not exist"),
        ("none.pt2", r"none\.pt2 does not exist"),
        ("none.py:f", r"none\.py does not exist"),
        ("", "unknown model ''"),
    ],
)
def test_what_is_no_workload_is_said_to_be_none(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        find_workload(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("ending", "known"), [(".pt2", True), (".onnx", False)])
def test_files_bring_their_own_weights(tmp_path: Path, ending: str, known: bool) -> None:
    path = tmp_path / f"a b{ending}"
    path.write_bytes(b"content")
    source = find_workload(str(path))
    assert (source.name, source.identity is not None) == ("a_b", known)
    assert source.build() == Workload("a_b", path)
    with pytest.raises(UsageError, match="--weights does not go with"):
        find_workload(str(path), "weights.pt")


@pytest.mark.parametrize("content", ["missing", "garbage", "other model", "packed", "wrapped"])
def test_checkpoints_are_loaded_or_refused(tmp_path: Path, content: str) -> None:
    path, model = tmp_path / "weights.pt", torch.nn.Linear(4, 2)
    wanted = torch.nn.Linear(4, 2).state_dict()
    if content == "garbage":
        path.write_bytes(b"garbage")
    elif content == "other model":
        torch.save(torch.nn.Linear(3, 2).state_dict(), path)
    elif content == "packed":  # a few kilobytes could unpack to gigabytes
        torch.save(wanted, path)
        with zipfile.ZipFile(path) as stored:
            members = {name: stored.read(name) for name in stored.namelist()}
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            for name, data in members.items():
                packed.writestr(name, data)
    elif content == "wrapped":
        torch.save({"state_dict": wanted, "epoch": 3}, path)
        load_checkpoint(model, str(path))
        assert torch.equal(model.weight, wanted["weight"])
        return
    with pytest.raises(CaptureError, match=r"weights .*weights\.pt do not (fit|exist)") as caught:
        load_checkpoint(model, str(path))
    assert "\n" not in str(caught.value)
