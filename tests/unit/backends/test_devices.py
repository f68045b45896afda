"""Targets that name a device: what is there runs on it, what is not keeps its row with reason and remedy."""

from __future__ import annotations

import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backends.torch import _device as _torch_device
from cross_backend.errors import UnavailableError, UnsupportedError
from cross_backend.records import Execution, Outcome
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Softmax(-1))
        return xb.capture(net.eval(), (torch.randn(8, 64),))


def _execution(artifact: Artifact, target: str) -> Execution:
    resolved = resolve(target)
    assert artifact.sample_path is not None
    inputs = load_tensors(artifact.sample_path)["input"]
    execution = resolved.backend.execution(artifact, resolved.options, inputs)
    assert execution is not None
    return execution


def _openvino_has(device: str) -> bool:
    import openvino

    return any(name.partition(".")[0] == device for name in openvino.Core().available_devices)


THERE = {
    "openvino?device=gpu": lambda: _openvino_has("GPU"),
    "openvino?device=npu&precision=fp16": lambda: _openvino_has("NPU"),
    "torch?device=cuda": torch.cuda.is_available,
    "torch?device=mps": torch.backends.mps.is_available,
    "compile?device=cuda": torch.cuda.is_available,
    "aot_inductor?device=cuda": torch.cuda.is_available,
}


@pytest.mark.slow
def test_a_device_that_is_not_here_keeps_its_row(program: torch.export.ExportedProgram) -> None:
    targets = ["torch", *THERE]
    panel = xb.compare(program, targets, num_runs=6, seconds=0.2)
    assert panel.results[0].outcome is Outcome.OK
    for result, (text, there) in zip(panel.results[1:], THERE.items(), strict=True):
        if there():
            assert result.outcome is Outcome.OK, (text, result.reason)
            continue
        assert result.outcome is Outcome.UNAVAILABLE, (text, result.outcome, result.reason)
        assert result.latency is None and result.rank is None
        assert result.reason is not None and "\n" not in result.reason
        assert "; " in result.reason, "what stops it; what mends it"


def test_openvino_says_in_its_plugins_words_why_there_is_no_gpu(program: torch.export.ExportedProgram) -> None:
    artifact = xb.lower(program, "openvino", name="net")
    if _openvino_has("GPU"):
        assert _execution(artifact, "openvino?device=gpu").device == "OpenVINO GPU"
        return
    with pytest.raises(UnavailableError, match="finds no GPU here") as caught, xb.load(artifact, device="gpu"):
        pass
    assert caught.value.remedy.startswith("install Intel's graphics compute runtime")
    assert "Exception from" not in caught.value.reason


def test_openvino_computes_in_float32_where_nothing_else_is_asked(program: torch.export.ExportedProgram) -> None:
    execution = _execution(xb.lower(program, "openvino", name="net"), "openvino")
    assert (execution.device, execution.nodes, execution.elsewhere) == ("OpenVINO CPU", 1, ())
    assert execution.precision == "fp32"


def test_openvino_says_the_arithmetic_that_it_used_and_not_what_was_asked(
    program: torch.export.ExportedProgram,
) -> None:
    """Processors without bfloat16 units compute in float32 all the same, and the plugin keeps silent."""
    import openvino

    artifact = xb.lower(program, "openvino", name="net")
    compiled = openvino.Core().compile_model(
        artifact.payload_path / "model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "bf16"}
    )
    used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    precision = _execution(artifact, "openvino?precision=bf16").precision
    assert precision is not None
    assert ("bf16" in precision.split(" + ")) == (used == "bf16"), (used, precision)
    assert used in {"bf16", "f32"}


def test_openvino_does_not_call_bfloat16_float16(program: torch.export.ExportedProgram) -> None:
    """What processors without float16 arithmetic are given is eight times as coarse, and was judged as float16."""
    import openvino

    artifact = xb.lower(program, "openvino", name="net")
    if "BF16" in (has := openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")) and "FP16" not in has:
        with (
            pytest.raises(UnavailableError, match="computes in bfloat16") as caught,
            xb.load(artifact, precision="fp16"),
        ):
            pass
        assert "precision=bf16" in caught.value.remedy
        return
    precision = _execution(artifact, "openvino?precision=fp16").precision
    assert precision is not None and "bf16" not in precision


def test_torch_says_which_blas_it_was_built_with(program: torch.export.ExportedProgram) -> None:
    device = _execution(xb.lower(program, "torch", name="net"), "torch").device
    assert device.startswith("CPU (")
    assert torch.backends.mkl.is_available() == ("BLAS mkl" in device)
    assert torch.backends.mkldnn.is_available() == ("oneDNN" in device)


def test_a_program_is_read_to_a_device(program: torch.export.ExportedProgram) -> None:
    """``meta`` is the device that every build of torch has beside the CPU."""
    path = xb.lower(program, "torch", name="net").payload_path
    moved = _torch_device.read_program(path, "meta")
    assert {t.device.type for t in moved.state_dict.values()} == {"meta"}
    assert moved.module()(torch.empty(8, 64, device="meta")).device.type == "meta"
    ahead = _torch_device.moved_with_inputs(path, program, "meta")  # the compiler wants example inputs there, too
    assert ahead.example_inputs is not None and ahead.example_inputs[0][0].device.type == "meta"


def test_a_cuda_graph_needs_cuda(program: torch.export.ExportedProgram) -> None:
    with (
        pytest.raises(UnsupportedError, match="needs device=cuda"),
        xb.load(xb.lower(program, "torch"), cuda_graph="on"),
    ):
        pass


def test_a_silent_way_back_to_the_cpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_built", lambda: True)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setenv(_torch_device.FALLBACK, "1")
    with pytest.raises(UnavailableError, match=_torch_device.FALLBACK) as caught:
        _torch_device.require("mps")
    assert caught.value.remedy == f"unset {_torch_device.FALLBACK}"


def test_a_device_that_is_listed_and_cannot_compute_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.cuda.is_available():
        _torch_device.require("cuda")
    else:
        monkeypatch.setattr(torch.version, "cuda", "13.0")
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        with pytest.raises(UnavailableError, match="lists cuda and cannot compute on it"):
            _torch_device.require("cuda")
    assert not torch.backends.cuda.matmul.allow_tf32, "TF32 is not float32"
    assert not torch.backends.cudnn.allow_tf32
    xb.capture(torch.nn.Linear(4, 2), (torch.ones(1, 4),))  # torch.export reads these switches
