"""Order: the platform's, a bundle's, and what was measured here; with ties."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cross_backend as xb
from cross_backend.artifact import Artifact
from cross_backend.bundling import Evidence, write_bundle
from cross_backend.bundling.evidence import EvidenceRow
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, UsageError
from cross_backend.loading.order import Candidates, in_order, measured_first
from cross_backend.lowering.lower import lower
from cross_backend.machine import Machine, MachineIdentity
from cross_backend.placement import Placement
from cross_backend.program.captured import Captured
from cross_backend.registry import resolve
from cross_backend.remembered import Measured, Memory

Make = Callable[..., Artifact]


SERVER = ["openvino", "onnxruntime.cpu", "torch.eager", "null"]


def targets(artifacts: Sequence[Artifact]) -> list[str]:
    return [artifact.target for artifact in artifacts]


def measured(**ranks: int) -> dict[str, Measured]:
    """Give results by target; in a keyword's name ``_`` stands for the dot."""
    return {
        target.replace("_", "."): Measured(rank, float(rank), 0.0, 9.0, 1, "machine", "cpu")
        for target, rank in ranks.items()
    }


@pytest.mark.parametrize(
    ("platform", "order"),
    [
        ("linux", SERVER),
        ("desktop", SERVER),
        ("web", ["null", "onnxruntime.cpu", "openvino", "torch.eager"]),
    ],
)
def test_the_order_is_the_platforms_then_by_name(folder: Path, platform: str, order: list[str], cache: Cache) -> None:
    found = in_order(folder, platform, None, cache)
    assert targets(found.artifacts) == order
    assert not found.rejected


def test_what_was_measured_here_overrules_the_order(folder: Path, cache: Cache) -> None:
    program = Artifact.read(folder / "net_torch.json").program
    Memory(cache).keep_measured(program, measured(torch_eager=1, onnxruntime_cpu=2, openvino=3))
    found = in_order(folder, "linux", None, cache)
    assert targets(found.artifacts) == ["torch.eager", "onnxruntime.cpu", "openvino", "null"]


def test_what_another_program_measured_says_nothing(folder: Path, cache: Cache) -> None:
    Memory(cache).keep_measured("0" * 64, measured(torch_eager=1, openvino=2))
    assert targets(in_order(folder, "linux", None, cache).artifacts) == SERVER


def test_a_damaged_manifest_is_rejected_with_its_reason(folder: Path, cache: Cache) -> None:
    path = folder / "net_openvino.json"
    for damage in (path.read_text()[:100], "[" * 100_000):
        path.write_text(damage)
        found = in_order(folder, "linux", None, cache)
        (rejected,) = found.rejected
        assert targets(found.artifacts) == SERVER[1:]
        assert rejected.target == "net_openvino.json" and "damaged" in rejected.reason


def test_an_artifact_of_an_unknown_backend_is_rejected(folder: Path, cache: Cache) -> None:
    path = folder / "net_openvino.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "target": "somebody.else"}))
    found = in_order(folder, "linux", None, cache)
    (rejected,) = found.rejected
    assert targets(found.artifacts) == SERVER[1:]
    assert "unknown backend 'somebody.else'" in rejected.reason


def test_other_json_files_are_not_looked_at(folder: Path, cache: Cache) -> None:
    """``compare --output-dir`` writes its results beside the artifacts."""
    (folder / "results.json").write_text('{"schema": 1, "results": []}')
    assert in_order(folder, "linux", None, cache).rejected == []


def test_several_models_need_a_choice(folder: Path, capture_net: Callable[[str], Any], cache: Cache) -> None:
    xb.lower(capture_net("other"), "null", name="other", output_dir=folder)
    with pytest.raises(UsageError, match=r"several models; say which: model='net' \| 'other'"):
        in_order(folder, None, None, cache)
    assert [artifact.name for artifact in in_order(folder, None, "other", cache).artifacts] == ["other_null"]
    with pytest.raises(ArtifactError, match="no artifacts of 'third'"):
        in_order(folder, None, "third", cache)


def test_an_empty_or_missing_folder_says_how_to_fill_it(tmp_path: Path, cache: Cache) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ArtifactError, match="holds no artifacts; write some with 'cross-backend export"):
        in_order(tmp_path / "empty", None, None, cache)
    with pytest.raises(ArtifactError, match="is not a folder"):
        in_order(tmp_path / "none", None, None, cache)
    with pytest.raises(UsageError, match=r"unknown platform 'lunix'\. Did you mean 'linux'"):
        in_order(tmp_path / "empty", "lunix", None, cache)


# --- The order of a bundle

NAMES = ["linear_regression_null", "linear_regression_torch", "linear_regression_onnxruntime"]


@pytest.fixture(scope="module")
def bundled(linear: Captured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        (lower(linear, resolve(target), Cache()).artifact, name, target, {"tolerance": 1e-4})
        for target, name in zip(("null", "torch", "cpu"), NAMES, strict=True)
    ]
    orders: dict[str, list[str]] = {"linux": NAMES[:0:-1], "web": NAMES[1:], "embedded": []}
    return write_bundle(linear, rows, orders, {}, tmp_path_factory.mktemp("bundles"))


@pytest.mark.parametrize(
    ("platform", "names"),
    [("linux", NAMES[:0:-1]), ("desktop", NAMES[:0:-1]), ("web", NAMES[1:]), ("ios", NAMES), ("macos", NAMES)],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_the_order_is_the_bundles(
    platform: str, names: list[str], zipped: bool, bundled: Path, tmp_path: Path, cache: Cache
) -> None:
    path = Path(shutil.make_archive(str(tmp_path / "bundle"), "zip", bundled)) if zipped else bundled
    found = in_order(path, platform, "linear_regression", cache)
    assert [artifact.name for artifact in found.artifacts] == names and found.rejected == []


def test_results_of_this_machine_overrule_the_bundles_order(bundled: Path, linear: Captured, cache: Cache) -> None:
    Memory(cache).keep_measured(linear.digest, measured(torch_eager=1, onnxruntime_cpu=2))
    for platform, names in {"linux": NAMES[1:], "ios": NAMES}.items():
        assert [artifact.name for artifact in in_order(bundled, platform, None, cache).artifacts] == names


EVIDENCE = Evidence(
    "linux",
    MachineIdentity("Far", "arm64", "linux", "0" * 16),
    "ssh://pi",
    "2026-11-26T10:00:00Z",
    1,
    3,
    (NAMES[1], NAMES[2]),
    (EvidenceRow(NAMES[1], 1, 1.0, 1.0, 1.0, 0.5),),
)


@pytest.fixture(scope="module")
def with_evidence(linear: Captured, bundled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    bundle = Path(shutil.copytree(bundled, tmp_path_factory.mktemp("evidence") / "bundle"))
    row = json.loads((bundle / "manifest.json").read_text())
    row["evidence"] = [dataclasses.asdict(EVIDENCE)]
    (bundle / "manifest.json").write_text(json.dumps(row))
    return bundle


def reasons(found: Candidates) -> dict[str, str]:
    return {artifact.name: found.why(artifact) for artifact in found.artifacts}


def test_the_evidence_that_fits_the_machine_orders_a_bundle(with_evidence: Path, cache: Cache) -> None:
    far = dataclasses.replace(Machine.here(), cpu="Far", arch="arm64", system="linux")
    assert reasons(in_order(with_evidence, "linux", None, cache, far)) == {
        NAMES[1]: "measured rank 1 of 3 on Far (arm64, linux), 2026-11-26; by the bundle's evidence",
        NAMES[2]: "not measured; tried after what was measured on Far (arm64, linux), 2026-11-26",
    }
    another = dataclasses.replace(far, arch="riscv64")
    unknown = dict.fromkeys(NAMES[:0:-1], "no measurement of this machine; the order of linux")
    found = reasons(in_order(with_evidence, "linux", None, cache, another))
    assert found == unknown and list(found) == list(unknown)
    unknown = dict.fromkeys(NAMES, "no measurement of this machine; the order of the bundle")
    assert reasons(in_order(with_evidence, "ios", None, cache, far)) == unknown


def test_what_the_machine_measured_itself_comes_before_the_evidence(
    with_evidence: Path, linear: Captured, cache: Cache
) -> None:
    far = dataclasses.replace(Machine.here(), cpu="Far", arch="arm64", system="linux")
    own = measured(torch_eager=2, onnxruntime_cpu=1, openvino=2)
    Memory(cache, far).keep_measured(linear.digest, own, "ssh://pi", "2026-11-27T10:00:00Z")
    found = reasons(in_order(with_evidence, "linux", None, cache, far))
    assert list(found.items()) == [
        (NAMES[2], "measured rank 1 of 3 on this machine (cpu), 2026-11-27"),
        (NAMES[1], "measured rank 2 of 3 on this machine (cpu), 2026-11-27"),
    ]
    third = in_order(with_evidence, "ios", None, cache, far)
    assert reasons(third)[NAMES[0]] == "not measured on this machine; the order of the bundle"


def test_a_bundle_with_nothing_for_a_platform_says_so(bundled: Path, cache: Cache) -> None:
    with pytest.raises(ArtifactError, match=r"linear_regression holds no artifact for embedded\.$"):
        in_order(bundled, "embedded", None, cache)


def test_a_bundle_has_one_model(bundled: Path, cache: Cache) -> None:
    with pytest.raises(ArtifactError, match=r"is a bundle of linear_regression, not of other\."):
        in_order(bundled, None, "other", cache)


# --- Measured first


@given(
    st.lists(st.sampled_from("abcdefgh"), unique=True),
    st.dictionaries(st.sampled_from("abcdefghxyz"), st.integers(1, 4)),
)
def test_measured_artifacts_share_out_the_places_that_they_held(order: list[str], ranks: dict[str, int]) -> None:
    candidates = [
        Artifact(Path(), target, target, "net", "p", target, "", 0, (), (), Placement(), {}, 0.0) for target in order
    ]
    found = targets(measured_first(candidates, measured(**ranks)))
    assert sorted(found) == sorted(order), "nothing is lost"
    assert [t for t in found if t not in ranks] == [t for t in order if t not in ranks]
    assert [t in ranks for t in found] == [t in ranks for t in order], "what was not measured stays where it is"
    assert [t for t in found if t in ranks] == sorted((t for t in order if t in ranks), key=lambda t: ranks[t])


def test_results_of_two_leave_the_third_where_it_is() -> None:
    candidates = [
        Artifact(Path(), target, target, "net", "p", target, "", 0, (), (), Placement(), {}, 0.0)
        for target in ("a", "b", "c", "d")
    ]
    assert targets(measured_first(candidates, measured(a=2, c=1))) == ["c", "b", "a", "d"]
    assert targets(measured_first(candidates, measured(a=1, c=1, d=1))) == ["a", "b", "c", "d"], "ties change nothing"
    assert targets(measured_first(candidates, {})) == ["a", "b", "c", "d"]
