"""ONNX Runtime's providers in their toolchains: right outputs, and where the work really ran."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.bench.bench import Subject
from cross_backend.bench.worker_bench import WorkerBench
from cross_backend.registry import resolve
from cross_backend.toolchains import find_toolchain
from cross_backend.verify.compare import precision_of
from cross_backend.worker.process import Worker
from tests.conftest import named_toolchains

TARGETS = {"onnxruntime_openvino": "onnxruntime.openvino", "onnxruntime_qnn": "onnxruntime.qnn"}
EXECUTE = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from cross_backend.artifact import Artifact
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors
artifact, resolved = Artifact.read(Path(sys.argv[1])), resolve(sys.argv[2])
inputs = load_tensors(artifact.sample_path)["input"]
print("\\n" + json.dumps(asdict(resolved.backend.execution(artifact, resolved.options, inputs))))
"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        named = [name for name in named_toolchains(metafunc.config) if name.startswith("onnxruntime")]
        assert set(named) <= set(TARGETS), f"--toolchains names some of {', '.join(TARGETS)}"
        metafunc.parametrize("target", [TARGETS[name] for name in named])


@pytest.fixture
def python(target: str) -> str:
    toolchain = resolve(target).backend.run_toolchain
    assert toolchain is not None and find_toolchain(toolchain).added, f"cross-backend toolchain add {toolchain}"
    return resolve(target).python


def execution(python: str, artifact: Artifact, target: str) -> dict[str, Any]:
    """Ask in the toolchain's interpreter, which has our package on its path and nothing else of this one's."""
    package = Path(xb.__file__).parents[1]
    command = [python, "-c", EXECUTE, str(artifact.manifest_path), target]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def verified(python: str, artifact: Artifact, target: str, log: Path) -> bool:
    with WorkerBench(Worker(log, python), 300) as bench:
        bench.open(Subject(artifact.payload_path, target, 1))
        return bench.verify(precision_of(resolve(target).options)).comparison.verdict


def test_a_network_runs_whole_on_the_provider(target: str, python: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(288, 4)]
    artifact = xb.lower(xb.capture(torch.nn.Sequential(*layers), (torch.randn(1, 3, 8, 8),)), target, name="cnn")
    assert verified(python, artifact, target, tmp_path / "log")
    found = execution(python, artifact, target)
    assert (found["nodes"], found["time"], found["elsewhere"]) == (1.0, 1.0, [])
    emulated = target == "onnxruntime.qnn" and os.uname().machine == "x86_64"
    assert found["precision"] == ("fp16" if target == "onnxruntime.qnn" else "fp32")
    assert (found["functional_only"] is not None) == emulated


def test_a_node_that_the_provider_lacks_is_found_on_the_cpu(target: str, python: str, tmp_path: Path) -> None:
    """A strict session is refused because of Det; the ordinary one says who ran it."""
    if target == "onnxruntime.openvino":  # 1.24.1 makes a graph of it that ONNX Runtime itself then refuses
        with pytest.raises(xb.CrossBackendError, match="not acyclic"):
            verified(python, mixed(tmp_path), target, tmp_path / "log")
        return
    assert verified(python, mixed(tmp_path), target, tmp_path / "log")
    found = execution(python, mixed(tmp_path), target)
    assert found["nodes"] == pytest.approx(2 / 3)
    assert found["elsewhere"] == [["Det @ CPU", 1]]
    assert 0.5 < found["time"] < 1


def mixed(folder: Path) -> Artifact:
    """Lower MatMul, Det, Add."""
    nodes = [("MatMul", ["x", "w"], "a"), ("Det", ["a"], "d"), ("Add", ["a", "d"], "y")]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes],
        "mixed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])],
        [helper.make_tensor("w", TensorProto.FLOAT, [4, 4], 2 * np.eye(4, dtype=np.float32).ravel())],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), folder / "m.onnx")
    return xb.lower(xb.OnnxProgram(folder / "m.onnx"), "onnxruntime.cpu", name="mixed")
