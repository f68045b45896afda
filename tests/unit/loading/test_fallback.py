"""Fallback: the first artifact that works is opened, every reason is kept, and first loads are remembered."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cross_backend as xb
from cross_backend import load_best
from cross_backend.artifact import Artifact, digest_path
from cross_backend.bundling import write_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, LoadError, UsageError
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import Captured
from cross_backend.registry import resolve
from cross_backend.remembered import Measured, Memory

pytestmark = pytest.mark.usefixtures("own_memory")
X = np.ones((1, 4), np.float32)
DATA = Path(__file__).parents[2] / "data"
FOUR = ("mps", "vulkan", "xnnpack", "portable")


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Forget everything: a cache of this test alone."""
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(tmp_path / "fresh"))
    return tmp_path / "fresh"


started: list[Any] = []


def _note_workers(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and "cross_backend.worker.child" in str(arguments[1]):
        started.append(arguments)


sys.addaudithook(_note_workers)


@contextmanager
def children(*, start: bool) -> Iterator[None]:
    """Check that worker processes were started in the block, or that none was."""
    started.clear()
    yield
    assert bool(started) == start


def reasons(session: xb.Session) -> dict[str, str]:
    return {row.target: row.reason for row in session.rejected}


# --- A folder that ``export`` wrote


def test_the_first_that_works_is_opened(folder: Path) -> None:
    with load_best(folder, "linux") as session:
        assert session.is_open
        assert (session.target, session.rejected) == ("openvino", ())
        assert session(X).shape == (1, 2)
    assert not session.is_open


def test_what_does_not_work_is_passed_over_with_its_reason(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "cross_backend.loading.fallback")  # whatever a vendor did to the root logger
    (folder / "net_openvino" / "model.bin").write_bytes(b"")
    (folder / "net_onnxruntime.onnx").unlink()
    with load_best(str(folder), "linux") as session:
        assert session.target == "torch.eager"
        found = reasons(session)
    assert list(found) == ["openvino", "onnxruntime.cpu"]
    assert "sha256" in found["openvino"] and "missing" in found["onnxruntime.cpu"]
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2


def test_a_damaged_manifest_is_passed_over_with_its_reason(folder: Path) -> None:
    path = folder / "net_openvino.json"
    path.write_text(path.read_text()[:100])
    with load_best(folder, "linux") as session:
        assert session.target == "onnxruntime.cpu"
        assert "damaged" in reasons(session)["net_openvino.json"]


def test_an_artifact_of_an_unknown_backend_is_passed_over(folder: Path) -> None:
    path = folder / "net_openvino.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target": "somebody.else"}))
    with load_best(folder, "linux") as session:
        assert session.target == "onnxruntime.cpu"
        assert "unknown backend 'somebody.else'" in session.rejected[0].reason


def test_several_models_need_a_choice(folder: Path, capture_net: Callable[[str], Any]) -> None:
    xb.lower(capture_net("other"), "torch", name="other", output_dir=folder)
    with pytest.raises(UsageError, match=r"several models; say which: model='net' \| 'other'"):
        load_best(folder)
    with load_best(folder, model="other") as session:
        assert session.artifact.name == "other_torch"


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


def test_what_cannot_be_tried_at_all_says_so(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ArtifactError, match="is not a folder"):
        load_best(tmp_path / "none")
    with pytest.raises(UsageError, match="unknown platform 'lunix'"):
        load_best(folder, "lunix")
    for seconds in (0, -1, float("nan")):
        with pytest.raises(UsageError, match="timeout_s must be above 0"):
            load_best(folder, timeout_s=seconds)


def test_two_files_of_one_target_each_keep_their_reason(folder: Path) -> None:
    """The copy works; why the original was passed over is not lost with it."""
    artifact = Artifact.read(folder / "net_torch.json")
    copy = artifact.copy_to(folder, "zcopy", artifact.target, "zcopy_sample.npz")
    artifact.payload_path.write_bytes(b"")
    for name in ("net_openvino.json", "net_onnxruntime.json"):
        (folder / name).unlink()
    with load_best(folder, "linux") as session:
        assert session.artifact.payload == copy.payload
        assert "net_torch.pt2 is not the payload" in reasons(session)["torch.eager"]


# --- What is remembered


def test_the_first_load_takes_a_child_and_the_second_does_not(folder: Path, fresh: Path) -> None:
    for first in (True, False):
        with children(start=first), load_best(folder, "linux") as session:
            assert (session.target, session.rejected) == ("openvino", ())
            assert session(X).shape == (1, 2)


def test_deleting_the_cache_takes_a_child_again(folder: Path, fresh: Path) -> None:
    for _ in range(2):
        with children(start=True), load_best(folder, "linux") as session:
            assert session.target == "openvino"
        shutil.rmtree(fresh)


def resign(manifest: Path, part: str, path: Path) -> None:
    row = json.loads(manifest.read_text())
    row[part]["sha256"] = digest_path(path)
    manifest.write_text(json.dumps(row))


@pytest.mark.parametrize("part", ["payload", "sample"])
def test_other_bytes_take_a_child_again(part: str, folder: Path, fresh: Path) -> None:
    """A payload with a comment more, and a sample stored once more: they do the same and are other files."""
    manifest = folder / "net_openvino.json"
    with load_best(folder, "linux") as session:
        assert session.target == "openvino"
    if part == "payload":
        with (folder / "net_openvino" / "model.xml").open("a") as file:
            file.write("<!-- -->")
        resign(manifest, "payload", folder / "net_openvino")
    else:
        with np.load(folder / "net_sample.npz") as members:
            np.savez_compressed(folder / "net_sample.npz", **dict(members))
        resign(manifest, "sample", folder / "net_sample.npz")
    for first in (True, False):
        with children(start=first), load_best(folder, "linux") as session:
            assert session.target == "openvino"


def test_wrong_outputs_are_never_opened_again(folder: Path, fresh: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The null backend gives zeros; on the web's order it is the first by name."""
    caplog.set_level(logging.WARNING, "cross_backend.loading.fallback")
    with load_best(folder, "web") as session:
        assert session.target == "onnxruntime.cpu"
        assert reasons(session)["null"].startswith("its outputs are wrong: output 0 ")
    for retry in (False, True):
        with children(start=False), load_best(folder, "web", retry=retry) as session:
            assert session.target == "onnxruntime.cpu"
            assert reasons(session)["null"].startswith("its outputs were wrong here before: output 0 ")
    for path in folder.glob("*.json"):
        if path.name != "net_null.json":
            path.unlink()
    with children(start=False), pytest.raises(LoadError, match="null: its outputs were wrong here before"):
        load_best(folder, "web")


@pytest.mark.fresh_workers  # a fork may have answered before a busy machine lets its parent look
def test_a_child_that_takes_too_long_is_tried_last_next_time(
    folder: Path, fresh: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No child starts in a millisecond; given more time, it turns out that nothing is wrong with any of them."""
    caplog.set_level(logging.INFO, "cross_backend.loading.fallback")
    (folder / "net_null.json").unlink()
    with pytest.raises(LoadError) as caught:
        load_best(folder, "linux", timeout_s=0.001)
    assert str(caught.value).count("no answer to 'open' within") == 3
    (folder / "net_openvino" / "model.bin").write_bytes(b"")
    with children(start=True), load_best(folder, "linux") as session:
        assert session.target == "onnxruntime.cpu"
        found = reasons(session)
    assert list(found) == ["openvino", "torch.eager"], "not the reason against what works after all"
    assert "sha256" in found["openvino"]
    assert found["torch.eager"].startswith("it crashed here before (no answer to 'open' within")
    assert [row.message for row in caplog.records if row.levelname == "INFO"] == [
        f"{target} is tried last: {reason}"
        for target, reason in {"onnxruntime.cpu": found["torch.eager"], "torch.eager": found["torch.eager"]}.items()
    ]
    with children(start=False), load_best(folder, "linux") as session:
        assert session.target == "onnxruntime.cpu"


# --- Bundles


def artifact_of(linear: Captured, backend: str) -> Artifact:
    """Lower here; what only ExecuTorch 1.4 can lower is kept as a file."""
    if backend == "mps":
        return replace(Artifact.read(DATA / "linear_regression_mps.json"), program=linear.digest)
    return lower(linear, resolve(backend), Cache()).artifact


@pytest.fixture(scope="module")
def chain(linear: Captured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundle the fallback chain of Apple's, Android's and everybody's backends."""
    rows = [
        (
            artifact_of(linear, name),
            f"linear_regression_{name}",
            resolve(name).backend.title,
            {"tolerance": 1e-4},
        )
        for name in FOUR
    ]
    order = [name for _, name, _, _ in rows]
    return write_bundle(linear, rows, {"linux": order}, {}, tmp_path_factory.mktemp("chain"))


@pytest.fixture
def bundle(chain: Path, tmp_path: Path) -> Path:
    """Copy the bundle, to be damaged."""
    return Path(shutil.copytree(chain, tmp_path / "bundle"))


INPUT = np.array([[1, 2, 3, 4]], np.float32)


@pytest.mark.parametrize("platform", [None, "linux", "ios"])
def test_the_chain_opens_xnnpack_and_says_why_not_mps_and_vulkan(platform: str | None, bundle: Path) -> None:
    with load_best(bundle, platform) as session:
        assert session.target == "executorch.xnnpack"
        assert session(INPUT).item() == pytest.approx(2.7182, abs=1e-4)
        assert list(reasons(session)) == ["executorch.mps", "executorch.vulkan"]
        assert "runs on Apple's systems only" in reasons(session)["executorch.mps"]
        assert "the runtime in the executorch package holds no Vulkan" in reasons(session)["executorch.vulkan"]


def test_without_the_file_of_xnnpack_it_opens_portable(bundle: Path) -> None:
    (bundle / "linear_regression_xnnpack.pte").unlink()
    with load_best(bundle) as session:
        assert session.target == "executorch.portable"
        assert session(INPUT).item() == pytest.approx(2.7182, abs=1e-4)
        assert list(reasons(session)) == ["executorch.mps", "executorch.vulkan", "executorch.xnnpack"]
        assert "linear_regression_xnnpack.pte is missing" in reasons(session)["executorch.xnnpack"]


def test_without_both_every_reason_is_told(bundle: Path) -> None:
    (bundle / "linear_regression_xnnpack.pte").unlink()
    (bundle / "linear_regression_portable.pte").write_bytes(b"")
    with pytest.raises(LoadError, match=r"nothing in .*bundle works here\. executorch\.mps: ") as caught:
        load_best(bundle)
    for target in ("executorch.vulkan: ", "executorch.xnnpack: ", "executorch.portable: "):
        assert target in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_zip_file_opens_as_its_folder(bundle: Path, tmp_path: Path) -> None:
    path = shutil.make_archive(str(tmp_path / "chain"), "zip", bundle)
    with load_best(path) as session:
        assert session.target == "executorch.xnnpack" and len(session.rejected) == 2
        assert session(INPUT).item() == pytest.approx(2.7182, abs=1e-4)


def test_results_of_this_machine_overrule_the_bundles_order(bundle: Path, linear: Captured, fresh: Path) -> None:
    def measured(rank: int) -> Measured:
        return Measured(rank, float(rank), 0.0, 9.0, 1, "machine", "cpu")

    memory = Memory(Cache(fresh))
    memory.keep_measured(linear.digest, {"executorch.portable": measured(1), "executorch.xnnpack": measured(2)})
    with load_best(bundle) as session:
        assert session.target == "executorch.portable"
        assert list(reasons(session)) == ["executorch.mps", "executorch.vulkan"]
    memory.keep_measured(linear.digest, {"executorch.portable": measured(1), "executorch.xnnpack": measured(1)})
    with load_best(bundle) as session:
        assert session.target == "executorch.xnnpack", "a tie keeps the static order"


def test_a_runtime_without_the_delegate_is_found_before_it_loads(bundle: Path, fresh: Path) -> None:
    """The certificate names a delegate that no runtime has; the payload itself would load."""
    row = json.loads((bundle / "manifest.json").read_text())
    row["artifacts"][2]["placement"]["delegates"] = {"TeleportBackend": 1}
    row["artifacts"][3]["placement"]["left"] = [{"name": "aten::telepathy.out", "count": 1, "why": None}]
    (bundle / "manifest.json").write_text(json.dumps(row))
    with pytest.raises(LoadError) as caught:
        load_best(bundle)
    assert "executorch.xnnpack: this ExecuTorch runtime does not hold TeleportBackend." in str(caught.value)
    assert "executorch.portable: this ExecuTorch runtime does not hold aten::telepathy.out." in str(caught.value)


def test_a_sample_that_expects_something_else_opens_nothing(bundle: Path, fresh: Path) -> None:
    path = bundle / "sample" / "expected_0.npy"
    np.save(path, np.load(path) + 1)
    row = json.loads((bundle / "manifest.json").read_text())
    row["sample"]["expected"][0]["sha256"] = digest_path(path)
    (bundle / "manifest.json").write_text(json.dumps(row))
    with pytest.raises(
        LoadError, match=r"executorch\.xnnpack: its outputs are wrong: .*executorch\.portable: its outp"
    ):
        load_best(bundle)
