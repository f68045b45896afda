"""browser.*: what is missing is said, one payload for all that read ONNX, and where nodes really ran."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.backends import browser as backends
from cross_backend.backends.browser import placed
from cross_backend.bench.bench import Subject
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.errors import LoadError, UnavailableError, UnsupportedError
from cross_backend.instruments.memory import HeldMemory
from cross_backend.machine import Machine
from cross_backend.registry import find_backend, resolve
from cross_backend.toolchains import VARIABLE
from cross_backend.worker.process import Worker
from tests.unit.browser.conftest import browser

__all__ = ["browser"]

LOG = """
2026 [V:onnxruntime:, session_state.cc:1380 VerifyEachNodeIsAssignedToAnEp] Node placements
2026 [V:onnxruntime:, session_state.cc:1383 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [CPUExecutionProvider]. Number of nodes: 2
2026 [V:onnxruntime:, session_state.cc:1385 VerifyEachNodeIsAssignedToAnEp]   NonZero (a (b))
2026 [V:onnxruntime:, session_state.cc:1385 VerifyEachNodeIsAssignedToAnEp]   NonZero ()
2026 [V:onnxruntime:, session_state.cc:1383 VerifyEachNodeIsAssignedToAnEp]  Node(s) placed on [WebGpuExecutionProvider]. Number of nodes: 3
2026 [V:onnxruntime:, session_state.cc:1385 VerifyEachNodeIsAssignedToAnEp]   MatMul ()
2026 [V:onnxruntime:, session_state.cc:1385 VerifyEachNodeIsAssignedToAnEp]   MemcpyToHost (Memcpy)
2026 [V:onnxruntime:, session_state.cc:1385 VerifyEachNodeIsAssignedToAnEp]   Relu ()
2026 [V:onnxruntime:, inference_session.cc:9 Initialize] Relu (not a node)
""".splitlines()  # noqa: E501  as ONNX Runtime writes them


class Model(torch.nn.Module):
    """A part of it no graphics processor takes: how long its second output is depends on the values."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.relu(self.linear(x))
        return y, torch.sort(y, dim=1)[1].float() + y


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    torch.manual_seed(0)
    return xb.lower(xb.capture(Model(), (torch.randn(2, 6),)), "browser.wasm", name="small")


def test_nodes_are_read_from_the_log() -> None:
    wasm, webgpu = "CPUExecutionProvider", "WebGpuExecutionProvider"
    assert placed(LOG) == Counter({(wasm, "NonZero"): 2, (webgpu, "MatMul"): 1, (webgpu, "Relu"): 1})
    whole = LOG[2].replace("Node(s) placed", "All nodes placed")
    assert placed([whole]) == Counter({(wasm, "all nodes"): 2})
    assert placed([]) == Counter()


@pytest.mark.parametrize("name", ["browser.wasm", "browser.webgpu"])
def test_what_is_missing_is_told_at_once(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(backends, "find_browser", lambda: None)
    missing = find_backend(name).missing(Machine.here())
    assert missing is not None and missing.lower is None and missing.run is not None
    assert missing.run.reason.startswith("needs Chromium, Chrome or Edge and the toolchain browser (onnxruntime-web ")
    assert missing.run.remedy.endswith("chromium), then: cross-backend toolchain add browser")
    monkeypatch.setattr(backends, "find_browser", lambda: "/usr/bin/chromium")
    missing = find_backend(name).missing(Machine.here())
    assert missing is not None and missing.run is not None
    assert missing.run.remedy == "cross-backend toolchain add browser"


def test_it_runs_the_file_that_onnx_runtime_runs(artifact: Artifact) -> None:
    program = xb.capture(Model(), (torch.randn(2, 6),))
    assert resolve("browser.webgpu").lowering == resolve("browser.wasm?threads=2").lowering
    there = xb.lower(program, "onnxruntime.cpu", name="small")
    assert xb.lower(program, "browser.webgpu", name="small").payload_path == there.payload_path


def test_a_worker_verifies_and_times_it(browser: None, artifact: Artifact, tmp_path: Path) -> None:
    with WorkerBench(Worker(tmp_path / "log"), 300) as bench:
        bench.open(Subject(artifact.payload_path, "browser.wasm", 1))
        assert bench.verify("fp32").comparison.verdict
        samples = bench.sample(20, 2, 60)
        assert len(samples.ns) == 20 and min(samples.ns) > 0
        assert all(ns % 5000 == 0 for ns in samples.ns), "the page's clock, and not this process's"
        with pytest.raises(UnsupportedError, match="memory is not read"):
            bench.take(HeldMemory())


class Kinds(torch.nn.Module):
    def forward(self, x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * scale, scale + x.sum()


@pytest.mark.slow
def test_a_scalar_keeps_its_shape_and_bfloat16_is_refused(browser: None) -> None:
    x, scale = torch.tensor([1.0, 2.0]), torch.tensor(3.0)
    with xb.load(xb.lower(xb.capture(Kinds(), (x, scale)), "browser.wasm", name="kinds")) as session:
        scaled, added = session(x, scale)
    assert scaled.tolist() == [3, 6] and (added.tolist(), added.shape) == (6, ())
    narrow = xb.lower(xb.capture(Kinds(), (x.bfloat16(), scale)), "browser.wasm", name="narrow")
    with pytest.raises(UnsupportedError, match=r"'x' is bfloat16\[2\], and JavaScript has no bfloat16"):
        xb.load(narrow).__enter__()


@pytest.mark.slow
def test_webgpu_tells_what_ran_where(browser: None, artifact: Artifact) -> None:
    """Chromium brings a driver in software, so that this runs without a graphics processor."""
    resolved, x = resolve("browser.webgpu"), torch.randn(2, 6)
    with resolved.backend.load(artifact, resolved.options) as session:
        found = session(x)
    with xb.load(artifact) as session:
        expected = session(x)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(found, expected, strict=True))
    execution = resolved.backend.execution(artifact, resolved.options, [x])
    assert execution is not None and execution.device.startswith("WebGPU (")
    assert execution.nodes is not None and 0 < execution.nodes <= 1
    assert (execution.nodes < 1) == bool(execution.elsewhere)
    assert (execution.functional_only is not None) == ("swiftshader" in execution.device)


def test_a_browser_without_webgpu_is_unavailable(
    browser: None, artifact: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = resolve("browser.webgpu")
    monkeypatch.setattr(type(resolved.backend), "flags", ("--disable-gpu",))
    with pytest.raises(UnavailableError, match="finds no graphics processor in Chromium"):
        resolved.backend.load(artifact, resolved.options).__enter__()


def test_a_browser_that_does_not_come_up_is_said(
    browser: None, artifact: Artifact, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "chromium"
    broken.write_text("#!/bin/sh\necho 'no usable sandbox' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    resolved = resolve("browser.wasm")
    with pytest.raises(LoadError, match="ended before it opened its page: no usable sandbox"):
        resolved.backend.load(artifact, resolved.options).__enter__()
