"""Selection: ranks with ties, loading with checks, and the first artifact of a folder that works."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.errors import ArtifactError, LoadError, UnavailableError, UsageError
from cross_backend.records import Measurement
from cross_backend.selection import in_order, load, load_best, rank

Make = Callable[..., Artifact]
Draw = Callable[..., list[Measurement]]


def ranks(measurements: list[Measurement], floor: float | None = 0.02) -> list[int]:
    measured = dict(enumerate(measurements))
    medians = {key: statistics.median(m.values) for key, m in measured.items()}
    found = rank(measured, medians, floor)
    return [found[key] for key in sorted(found)]


def test_different_targets_are_told_apart(draw: Draw) -> None:
    assert ranks(draw(3.0, 1.0, 2.0)) == [3, 1, 2]


def test_equal_targets_share_a_rank_and_the_next_keeps_its_place(draw: Draw) -> None:
    assert ranks(draw(1.0, 1.0, 1.0, 2.0)) == [1, 1, 1, 4]
    assert ranks(draw(1.0, 2.0, 2.0, 3.0)) == [1, 2, 2, 4]


def test_a_difference_below_the_floor_is_a_tie(draw: Draw) -> None:
    measurements = draw(1.0, 1.05)
    assert ranks(measurements, 0.02) == [1, 2]
    assert ranks(measurements, 0.10) == [1, 1]


def test_without_a_floor_the_smallest_believable_one_counts(draw: Draw) -> None:
    assert ranks(draw(1.0, 1.045), None) == [1, 1]
    assert ranks(draw(1.0, 1.07), None) == [1, 2]


def test_too_few_rounds_are_a_tie(draw: Draw) -> None:
    assert ranks(draw(1.0, 9.0, rounds=5)) == [1, 1]
    assert ranks(draw(1.0, 9.0, rounds=6)) == [1, 2]


def test_one_or_none_can_be_ranked(draw: Draw) -> None:
    assert ranks([]) == []
    assert ranks(draw(1.0)) == [1]


@pytest.fixture(scope="module")
def models() -> Callable[[str], torch.export.ExportedProgram]:
    def capture(name: str) -> torch.export.ExportedProgram:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(sum(name.encode()))
            return xb.capture(torch.nn.Linear(4, 2), (torch.ones(1, 4),))

    return capture


@pytest.fixture(scope="module")
def exported(models: Callable[[str], torch.export.ExportedProgram], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    for target in ("null", "torch", "cpu", "openvino"):
        xb.lower(models("net"), target, name="net", output_dir=folder)
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    """Copy the exported artifacts, to be damaged."""
    shutil.copytree(exported, tmp_path / "models")
    return tmp_path / "models"


X = np.ones((1, 4), np.float32)


def test_loads_an_artifact_its_manifest_and_its_payload(folder: Path) -> None:
    artifact = Artifact.read(folder / "net_onnxruntime.json")
    for given in (artifact, artifact.manifest_path, str(artifact.payload_path)):
        with load(given) as session:
            assert session(X).shape == (1, 2)
            assert session.target == "onnxruntime.cpu"


def test_load_options_change_only_how_it_is_opened(folder: Path) -> None:
    assert load(folder / "net_openvino.json", threads=1, precision="bf16").options == {
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


@pytest.mark.parametrize(
    ("platform", "order"),
    [
        ("linux", ["openvino", "onnxruntime.cpu", "torch.eager", "null"]),
        ("web", ["null", "onnxruntime.cpu", "openvino", "torch.eager"]),
    ],
)
def test_the_order_is_the_platforms_then_by_name(folder: Path, platform: str, order: list[str]) -> None:
    candidates, rejected = in_order(folder, platform, None)
    assert [artifact.target for artifact in candidates] == order
    assert not rejected


def test_the_first_that_works_is_opened(folder: Path) -> None:
    with load_best(folder, "linux") as session:
        assert session.is_open
        assert (session.target, session.rejected) == ("openvino", ())
        assert session(X).shape == (1, 2)
    assert not session.is_open


def test_what_does_not_work_is_passed_over_with_its_reason(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "net_openvino" / "model.bin").write_bytes(b"")
    (folder / "net_onnxruntime.onnx").unlink()
    with load_best(str(folder), "linux") as session:
        assert session.target == "torch.eager"
        reasons = {row.target: row.reason for row in session.rejected}
    assert list(reasons) == ["openvino", "onnxruntime.cpu"]
    assert "sha256" in reasons["openvino"] and "missing" in reasons["onnxruntime.cpu"]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_a_damaged_manifest_is_passed_over_with_its_reason(folder: Path) -> None:
    path = folder / "net_openvino.json"
    path.write_text(path.read_text()[:100])
    with load_best(folder, "linux") as session:
        assert session.target == "onnxruntime.cpu"
        assert [row.target for row in session.rejected] == ["net_openvino.json"]
        assert "damaged" in session.rejected[0].reason


def test_an_artifact_of_an_unknown_backend_is_passed_over(folder: Path) -> None:
    path = folder / "net_openvino.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target": "somebody.else"}))
    with load_best(folder, "linux") as session:
        assert session.target == "onnxruntime.cpu"
        assert "unknown backend 'somebody.else'" in session.rejected[0].reason


def test_other_json_files_are_not_looked_at(folder: Path) -> None:
    """``compare --output-dir`` writes its results beside the artifacts."""
    (folder / "results.json").write_text('{"schema": 1, "results": []}')
    with load_best(folder, "linux") as session:
        assert session.rejected == ()


def test_several_models_need_a_choice(folder: Path, models: Callable[[str], torch.export.ExportedProgram]) -> None:
    xb.lower(models("other"), "null", name="other", output_dir=folder)
    with pytest.raises(UsageError, match=r"several models; say which: model='net' \| 'other'"):
        load_best(folder)
    with load_best(folder, model="other") as session:
        assert session.target == "null"
    with pytest.raises(ArtifactError, match="no artifacts of 'third'"):
        load_best(folder, model="third")


def test_when_nothing_works_every_reason_is_told(folder: Path) -> None:
    for payload in folder.glob("net_*"):
        if payload.is_dir():
            shutil.rmtree(payload)
        elif payload.suffix not in {".json", ".npz"}:
            payload.write_bytes(b"")
    with pytest.raises(LoadError) as caught:
        load_best(folder, "linux")
    assert all(name in str(caught.value) for name in ("openvino:", "onnxruntime.cpu:", "torch.eager:", "null:"))
    assert "\n" not in str(caught.value)


def test_an_empty_or_missing_folder_says_how_to_fill_it(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="holds no artifacts; write some with 'cross-backend export"):
        load_best(tmp_path)
    with pytest.raises(ArtifactError, match="is not a folder"):
        load_best(tmp_path / "none")
    with pytest.raises(UsageError, match=r"unknown platform 'lunix'\. Did you mean 'linux'"):
        load_best(tmp_path, "lunix")
