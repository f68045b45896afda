"""Sessions of ONNX Runtime: strict first, and nothing moves to the CPU unsaid."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backends.onnxruntime._providers import PROVIDERS, Provider
from cross_backend.backends.onnxruntime._session import OnnxRuntimeSession
from cross_backend.errors import LoadError, UnavailableError
from cross_backend.program.onnx_export import export_onnx
from cross_backend.registry import resolve

X = torch.randn(2, 6)
TAKES_NOTHING = Provider("azure", "AzureExecutionProvider", "Azure", ("onnxruntime",))
"""The one other provider of the core package: it runs calls of a cloud service, and no node of an ordinary model."""
OPTIONS = {"threads": 1}


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    return xb.capture(torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.ReLU()), (X,))


@pytest.fixture(scope="module")
def artifact(program: torch.export.ExportedProgram) -> Artifact:
    return xb.lower(program, "onnxruntime.cpu", name="small")


def test_a_strict_session_is_refused_and_nothing_on_the_provider_is_an_error(artifact: Artifact) -> None:
    session = OnnxRuntimeSession(TAKES_NOTHING, artifact, OPTIONS)
    with pytest.raises(LoadError, match=r"Azure delegates 0 of the \d nodes \((Gemm|FusedGemm|Relu).*on the CPU"):
        session.__enter__()
    assert not session.is_strict and not session.is_open


def test_a_part_on_the_processor_is_logged(
    artifact: Artifact, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Azure refuses a strict session; that it took two of these five nodes is all that is made up here."""
    caplog.set_level(logging.WARNING)  # vendors' compilers raise the root logger's level in whoever imports them
    counted = Counter({("AzureExecutionProvider", "Gemm"): 2, ("CPUExecutionProvider", "Relu"): 3})
    monkeypatch.setattr(OnnxRuntimeSession, "assigned", lambda _self: counted)
    with OnnxRuntimeSession(TAKES_NOTHING, artifact, OPTIONS) as session:
        assert not session.is_strict
    assert "ONNX Runtime runs 3 of 5 nodes on its CPU kernels" in caplog.text


def test_what_this_build_lacks_is_said(artifact: Artifact) -> None:
    session = OnnxRuntimeSession(PROVIDERS["dnnl"], artifact, OPTIONS)
    with pytest.raises(LoadError, match="does not hold DnnlExecutionProvider"):
        session.__enter__()


def test_a_plugin_that_is_not_installed_is_said(artifact: Artifact) -> None:
    plugin = Provider("x", "XExecutionProvider", "X", ("x",), plugin="no_such_plugin")
    with pytest.raises(LoadError, match=r"cannot load .*no_such_plugin"):
        OnnxRuntimeSession(plugin, artifact, OPTIONS).__enter__()


def test_the_cpu_provider_cannot_run_elsewhere(artifact: Artifact) -> None:
    assert resolve("cpu").backend.execution(artifact, OPTIONS, (X,)) is None
    with OnnxRuntimeSession(PROVIDERS["cpu"], artifact, OPTIONS) as session:
        assert not session.is_strict and not session.is_emulated


def test_one_lowering_serves_all_under_their_own_names(
    program: torch.export.ExportedProgram, artifact: Artifact, tmp_path: Path
) -> None:
    cuda = xb.lower(program, "cuda", name="small")
    assert cuda.target == "onnxruntime.cuda"
    assert cuda.payload_path == artifact.payload_path, "the cache holds one file"
    delivered = xb.lower(program, "tensorrt?precision=fp16", name="small", output_dir=tmp_path)
    assert (delivered.name, delivered.target) == ("small_tensorrt_fp16", "onnxruntime.tensorrt?precision=fp16")
    assert Artifact.read(delivered.manifest_path) == delivered
    assert xb.lower(program, "cpu", name="small").target == "onnxruntime.cpu"


def test_loading_where_it_is_missing_says_what_mends_it(
    program: torch.export.ExportedProgram, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CROSS_BACKEND_TOOLCHAINS", str(tmp_path))
    with pytest.raises(UnavailableError, match="cross-backend toolchain add onnxruntime_openvino"):
        xb.load(xb.lower(program, "onnxruntime.openvino", name="small"))


def test_the_exporter_is_open_to_others(program: torch.export.ExportedProgram, tmp_path: Path) -> None:
    import onnx

    export_onnx(program, tmp_path / "small.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "small.onnx"), full_check=True)
