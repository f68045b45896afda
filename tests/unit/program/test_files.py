"""Files as workloads: programs of torch.export and ONNX are captured, and damaged files are refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.errors import ArtifactError, CaptureError
from cross_backend.program.captured import Captured, OnnxProgram
from cross_backend.program.pt2 import load_pt2, save_pt2
from cross_backend.program.reference import run_eagerly
from cross_backend.program.writing import write_capture
from cross_backend.tensors import check_inputs, load_tensors
from cross_backend.workloads import Workload
from tests.unit.program.nets import X, assert_consistent, net


def test_a_pt2_file_is_a_workload(tmp_path: Path) -> None:
    torch.export.save(xb.capture(net(), (X,)), tmp_path / "a.pt2")
    (tmp_path / "out").mkdir()
    assert_consistent(write_capture(Workload("net", tmp_path / "a.pt2"), tmp_path / "out"))


@pytest.mark.parametrize("content", [b"", b"PK\3\4 not a zip", b"\0" * 999])
def test_a_damaged_pt2_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.pt2"
    path.write_bytes(content)
    with pytest.raises(CaptureError, match=r"a\.pt2 is damaged or not a torch\.export file") as caught:
        load_pt2(path)
    assert "\n" not in str(caught.value)


def test_an_onnx_file_is_a_workload_with_a_reference_of_its_own(tmp_path: Path) -> None:
    made = torch.onnx.export(net(), (X,), dynamo=True, verbose=False)
    assert made is not None
    made.save(tmp_path / "a.onnx", external_data=True)
    (tmp_path / "out").mkdir()
    captured = write_capture(Workload("net", tmp_path / "a.onnx"), tmp_path / "out")
    assert isinstance(captured.program(), OnnxProgram)
    assert captured.flops is None
    sample = load_tensors(captured.sample_path)
    check_inputs(captured.inputs, sample["input"])
    expected = run_eagerly(net(), [torch.from_numpy(sample["input"][0])])
    np.testing.assert_allclose(sample["expected"][0], expected[0].numpy(), rtol=1e-5)


def test_a_pt2_file_that_calls_operators_of_other_packages_says_which(tmp_path: Path) -> None:
    """It is not damaged."""
    path = tmp_path / "twice.pt2"
    with torch.library._scoped_library("tests_foreign", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        torch.library.register_fake("tests_foreign::twice", torch.empty_like, lib=library)
        save_pt2(xb.capture(net(lambda m, x: torch.ops.tests_foreign.twice(x)), (X,)), path)
        load_pt2(path)  # made here, so that it may call what is none of torch's own
    with pytest.raises(CaptureError, match="calls the operator tests_foreign::twice, which torch does not have here"):
        load_pt2(path)


@pytest.mark.parametrize("content", [b"", b"not onnx", b"\x08\x0a" * 40])
def test_a_damaged_onnx_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_bytes(content)
    (tmp_path / "out").mkdir()
    with pytest.raises(CaptureError, match=r"a\.onnx is damaged or not an ONNX model") as caught:
        write_capture(Workload("net", tmp_path / "a.onnx"), tmp_path / "out")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("how", ["missing", "cut", "other", "field"])
def test_a_damaged_capture_is_refused(how: str, linear: Captured, tmp_path: Path) -> None:
    folder = tmp_path / "capture"
    shutil.copytree(linear.folder, folder)
    path = folder / "capture.json"
    row = json.loads(path.read_text())
    if how == "missing":
        path.unlink()
    else:
        content = {"cut": path.read_text()[:50], "other": "[]", "field": json.dumps({**row, "inputs": [{"name": "x"}]})}
        path.write_text(content[how])
    with pytest.raises(ArtifactError, match="is not a captured workload"):
        Captured.read(folder)
