"""What every backend that runs here promises about its profile; seen from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from cross_backend.backends.onnxruntime._providers import PROVIDERS
from cross_backend.bench.bench import Subject
from cross_backend.bench.worker_bench import Profile
from cross_backend.errors import UnsupportedError
from cross_backend.registry import resolve
from cross_backend.worker.process import Worker
from tests.conformance.conftest import Lower

READ = {
    "atalla",
    "executorch.atalla",
    "executorch.openvino",
    "executorch.portable",
    "executorch.xnnpack",
    "iree.llvm_cpu",
    "iree.vulkan",
    "mnn",
    *(f"onnxruntime.{name}" for name in PROVIDERS),
    "openvino",
    "torch.eager",
}
"""Those whose profiler must be read."""


def test_profiles_or_says_that_it_cannot(lowered: Lower, backend_name: str, runs_here: None, tmp_path: Path) -> None:
    """In a worker, because some run under an interpreter of their own."""
    payload = lowered("cnn").artifact.payload_path
    with Worker(tmp_path / "log", resolve(backend_name).python) as worker:
        if backend_name not in READ:
            with pytest.raises(UnsupportedError, match="no profiler") as caught:
                worker.ask(Profile(Subject(payload, backend_name, 1), 3), 300)
            assert backend_name in str(caught.value) and "\n" not in str(caught.value)
            return
        rows = worker.ask(Profile(Subject(payload, backend_name, 1), 3), 300)
    assert rows and sum(row.ms for row in rows) > 0
    assert all(row.name.strip() and row.kind.strip() and row.calls >= 1 and row.ms >= 0 for row in rows)
    assert [row.ms for row in rows] == sorted((row.ms for row in rows), reverse=True)
    assert len({(row.name, row.kind) for row in rows}) == len(rows)
    if {row.kind for row in rows} != {"delegate"}:
        # The network has one convolution, and a linear layer that an engine may compute as another: a count of all runs
        # together, or of the warm-up, would show.
        assert {row.calls for row in rows if "conv" in row.name.lower()} in ({1}, {2})
