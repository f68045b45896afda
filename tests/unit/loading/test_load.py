"""Loading one artifact: by itself, its manifest or its payload, after checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cross_backend.artifact import Artifact
from cross_backend.errors import ArtifactError, UnavailableError, UsageError
from cross_backend.loading.load import load

Make = Callable[..., Artifact]
X = np.ones((1, 4), np.float32)


def test_loads_an_artifact_its_manifest_and_its_payload(folder: Path) -> None:
    artifact = Artifact.read(folder / "net_onnxruntime.json")
    for one in (artifact, artifact.manifest_path, str(artifact.payload_path)):
        with load(one) as session:
            assert session(X).shape == (1, 2)
            assert session.target == "onnxruntime.cpu"


def test_load_options_change_only_how_it_is_opened(folder: Path) -> None:
    assert load(folder / "net_openvino.json", threads=1, precision="bf16").options == {
        "device": "cpu",
        "precision": "bf16",
        "threads": 1,
    }
    with pytest.raises(UsageError, match="thread"):
        load(folder / "net_openvino.json", thread=1)


def test_options_of_lowering_cannot_change_at_load(make_artifact: Make) -> None:
    artifact = make_artifact(target="executorch.xnnpack")
    with pytest.raises(UsageError, match=r"lowered as executorch\.xnnpack; options of lowering cannot change"):
        load(artifact, precision="int8")
    again = make_artifact(target="executorch.xnnpack?precision=int8")
    with pytest.raises(UsageError, match="cannot change"):
        load(again, precision="fp32")


def test_what_cannot_run_here_says_why(make_artifact: Make) -> None:
    with pytest.raises(UnavailableError, match=r"executorch\.vulkan does not run here.*-DEXECUTORCH_BUILD_VULKAN"):
        load(make_artifact(target="executorch.vulkan"))


def test_loading_checks_the_digest_and_the_backend(make_artifact: Make) -> None:
    artifact = make_artifact()
    artifact.payload_path.write_bytes(b"other")
    with pytest.raises(ArtifactError, match="sha256"):
        load(artifact)
    with pytest.raises(ArtifactError, match="unknown backend 'nul'"):
        load(make_artifact(target="nul"))
