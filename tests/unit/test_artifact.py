"""Artifact: the manifest's round trip, what reading refuses in one line, digests, and copies that are whole."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cross_backend.artifact import VERSION, Artifact, _commit, _stage, digest_path, size_of
from cross_backend.errors import ArtifactError
from cross_backend.placement import Operators, Placement, count_operators

Make = Callable[..., Artifact]


def refused(path: Path) -> str:
    """Read what must be refused; give the one line that says why."""
    with pytest.raises(ArtifactError) as caught:
        Artifact.read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_numbers_that_no_json_holds_are_refused(make_artifact: Make) -> None:
    """``inspect --json`` could not print them."""
    manifest = make_artifact().manifest_path
    row = json.loads(manifest.read_text())
    for change in ({"export_s": float("nan")}, {"estimate": {"cycles": float("inf")}}):
        manifest.write_text(json.dumps({**row, **change}))
        with pytest.raises(ArtifactError, match="is damaged or not an artifact manifest"):
            Artifact.read(manifest)


def test_survives_the_trip_through_its_manifest(make_artifact: Make) -> None:
    artifact = make_artifact(target="null?threads=1")
    assert Artifact.read(artifact.manifest_path) == artifact
    assert Artifact.read(str(artifact.payload_path)) == artifact
    artifact.check()
    assert [p.name for p in sorted(artifact.folder.iterdir())] == ["net_null.json", "net_null.npz", "net_null.null"]


def test_works_without_a_sample(make_artifact: Make) -> None:
    artifact = make_artifact(sample=None, sample_sha256=None)
    assert artifact.sample_path is None
    assert Artifact.read(artifact.manifest_path) == artifact
    artifact.check()


def test_a_dotted_name_is_found_by_payload_even_where_that_is_a_folder(make_artifact: Make) -> None:
    folder = make_artifact().folder / "v1.2_openvino"
    folder.mkdir()
    (folder / "model.xml").write_text("x")
    artifact = make_artifact("v1.2_openvino", payload=b"", sha256=digest_path(folder), size_bytes=1)
    artifact = dataclasses.replace(artifact, payload="v1.2_openvino")
    artifact.write_manifest()
    assert Artifact.read(artifact.manifest_path) == artifact
    assert Artifact.read(artifact.payload_path) == artifact


@pytest.mark.parametrize("what", ["payload", "sample", "bundled"])
@pytest.mark.parametrize("name", ["../net.null", "/etc/passwd", "..", ".", "", "a/b", "a\\b", "C:x", "a\0b", 3, None])
def test_refuses_paths_that_leave_the_folder(make_artifact: Make, what: str, name: object) -> None:
    artifact = make_artifact(bundled="net.bpte", bundled_sha256="0")
    row = artifact.to_json()
    row[what]["path"] = name
    artifact.manifest_path.write_text(json.dumps(row))
    assert "not a plain file name" in refused(artifact.manifest_path)


def test_refuses_a_newer_version_and_says_what_it_reads(make_artifact: Make) -> None:
    artifact = make_artifact()
    artifact.manifest_path.write_text(json.dumps({**artifact.to_json(), "version": VERSION + 1, "new": "field"}))
    text = refused(artifact.payload_path)
    assert f"version {VERSION + 1}" in text and f"up to {VERSION}" in text


@pytest.mark.parametrize("length", [0, 1, 40, 400, -3])
def test_refuses_a_truncated_manifest(make_artifact: Make, length: int) -> None:
    artifact = make_artifact()
    artifact.manifest_path.write_text(artifact.manifest_path.read_text()[:length])
    refused(artifact.manifest_path)


@pytest.mark.parametrize(
    "content", [b"[]", b"null", b"3", b'"x"', b"{}", b'{"format": "other"}', b"\xff\xfe", b"[" * 9999]
)
def test_refuses_json_that_is_no_manifest(make_artifact: Make, content: bytes) -> None:
    artifact = make_artifact()
    artifact.manifest_path.write_bytes(content)
    assert "not an artifact manifest" in refused(artifact.manifest_path)


def test_what_a_manifest_says_is_not_told_at_any_length(make_artifact: Make) -> None:
    artifact = make_artifact()
    text = artifact.manifest_path.read_text()
    artifact.manifest_path.write_text(text.replace('"target": "null"', f'"target": "{"?" * 100_000}"'))
    assert len(refused(artifact.manifest_path)) < 1000


@pytest.mark.parametrize("place", [("payload", "size_bytes"), ("placement", "planned_bytes")])
@pytest.mark.parametrize("size", [-1, 1 << 63, 10**400])
def test_a_size_that_nothing_has_is_refused(make_artifact: Make, place: tuple[str, str], size: int) -> None:
    artifact = make_artifact()
    row = json.loads(artifact.manifest_path.read_text())
    row[place[0]][place[1]] = size
    artifact.manifest_path.write_text(json.dumps(row))
    assert len(refused(artifact.manifest_path)) < 1000


def _leaves(row: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key in row if isinstance(row, dict) else range(len(row)) if isinstance(row, list) else ():
        yield from _leaves(row[key], (*path, key))


@pytest.mark.parametrize("wrong", [None, [], {}, "x", -1.5, [None]], ids=str)
def test_any_field_of_a_wrong_type_is_refused_or_harmless(make_artifact: Make, wrong: object) -> None:
    """What is read must also work: its coverage, its text and its check give a value or an ArtifactError."""
    artifact = make_artifact(placement=DEEP, bundled="net_null.null", bundled_sha256="0")
    for path in _leaves(artifact.to_json()):
        row = copy.deepcopy(artifact.to_json())
        holder = row
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = wrong
        artifact.manifest_path.write_text(json.dumps(row))
        try:
            found = Artifact.read(artifact.manifest_path)
            assert isinstance(found.placement.coverage, float), path
            json.dumps(found.to_json())
            found.check()
        except ArtifactError as error:
            message = str(error)
            assert "\n" not in message, path


def test_refuses_what_is_not_there(make_artifact: Make, tmp_path: Path) -> None:
    assert "does not exist" in refused(tmp_path / "none.pte")
    artifact = make_artifact()
    artifact.manifest_path.unlink()
    text = refused(artifact.payload_path)
    assert "no manifest net_null.json" in text and "cross-backend export" in text


@pytest.mark.parametrize("what", ["payload", "sample"])
@pytest.mark.parametrize("how", ["changed", "cut", "emptied", "removed"])
def test_check_refuses_bytes_that_are_not_the_manifests(make_artifact: Make, what: str, how: str) -> None:
    artifact = make_artifact(payload=b"0123456789")
    path = artifact.payload_path if what == "payload" else artifact.sample_path
    assert path is not None
    data = path.read_bytes()
    if how == "removed":
        path.unlink()
    else:
        path.write_bytes({"changed": b"\0" + data[1:], "cut": data[:-1], "emptied": b""}[how])
    with pytest.raises(ArtifactError, match="missing" if how == "removed" else "sha256") as caught:
        artifact.check()
    assert what in str(caught.value) and path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_coverage_counts_nodes() -> None:
    placement = Placement({"D": 2}, (Operators("conv", 3), Operators("add", 1)), (Operators("sort", 1, "why"),))
    assert (placement.inside_count, placement.left_count, placement.coverage) == (4, 1, 0.8)
    assert Placement().coverage == 0.0
    assert Placement.from_json(json.loads(json.dumps(placement.to_json()))) == placement


FIRST = """{
  "format": "cross-backend-artifact", "version": 1, "target": "executorch.xnnpack", "workload": "net",
  "program": "abc", "payload": {"path": "net_null.null", "size_bytes": 5, "sha256": "SHA"}, "sample": null,
  "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4]}],
  "outputs": [{"name": "y", "dtype": "float32", "shape": [1, 1]}],
  "placement": {
    "delegates": {"XnnpackBackend": 1},
    "inside": [{"name": "Conv2d", "count": 3, "why": null}],
    "left": [{"name": "aten::sort", "count": 1, "why": "no kernel"}],
    "coverage": 0.75
  },
  "estimate": {}, "versions": {"torch": "2.13.0"}, "export_s": 1.5
}"""
"""A manifest as the first version wrote it."""


def test_a_manifest_of_the_first_version_is_still_read(make_artifact: Make) -> None:
    made = make_artifact()
    made.manifest_path.write_text(FIRST.replace("SHA", made.sha256))
    artifact = Artifact.read(made.manifest_path)
    artifact.check()
    assert artifact.placement == Placement(
        {"XnnpackBackend": 1}, (Operators("Conv2d", 3),), (Operators("aten::sort", 1, "no kernel"),)
    )
    placement = artifact.placement
    assert (placement.coverage, placement.flop_coverage, placement.planned_bytes) == (0.75, None, None)
    assert (placement.left[0].flops, placement.left[0].lines) == (None, ())
    assert artifact.bundled_path is None and artifact.sample_path is None
    artifact.write_manifest()
    assert json.loads(made.manifest_path.read_text())["version"] == VERSION
    assert Artifact.read(made.manifest_path) == artifact


DEEP = Placement(
    {"D": 1},
    (Operators("conv", 3),),
    (Operators("mm", 2, "invalid dtype", 60, ("net.py:3 forward: a @ b",)), Operators("sort", 1, "no kernel", 0)),
    planned_bytes=10,
    constant_bytes=20,
    delegate_bytes=30,
)


def test_a_deep_placement_survives_the_trip_through_its_manifest() -> None:
    assert Placement.from_json(json.loads(json.dumps(DEEP.weighed(100).to_json()))) == DEEP.weighed(100)


@pytest.mark.parametrize(("flops", "coverage"), [(100, 0.4), (60, 0.0), (59, 0.0), (0, None), (None, None)])
def test_coverage_by_work_is_the_share_that_was_not_left(flops: int | None, coverage: float | None) -> None:
    assert DEEP.weighed(flops).flop_coverage == (None if coverage is None else pytest.approx(coverage))


def test_coverage_by_work_is_not_known_where_one_row_is_not() -> None:
    foreign = dataclasses.replace(DEEP, left=(*DEEP.left, Operators("delegate Other", 1)))
    assert foreign.weighed(100).flop_coverage is None
    assert Placement(inside=(Operators("conv", 1),)).weighed(100).flop_coverage == 1


def test_operators_are_ordered_by_frequency_and_name() -> None:
    assert count_operators({"b": 1, "a": 1, "c": 2}) == (Operators("c", 2), Operators("a", 1), Operators("b", 1))


def test_a_folders_digest_depends_on_names_places_and_bytes(tmp_path: Path) -> None:
    def build(name: str, **files: str) -> str:
        for path, content in files.items():
            file = tmp_path / name / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        return digest_path(tmp_path / name)

    first = build("1", a="x", b="y")
    assert first == build("2", b="y", a="x")
    others = [build("3", a="y", b="x"), build("4", a="x"), build("5", a="x", c="y"), build("6", a="x", d__b="y")]
    assert len({first, *others}) == 5
    assert size_of(tmp_path / "6") == 2 and size_of(tmp_path / "1" / "a") == 1
    assert re.fullmatch("[0-9a-f]{64}", first)


def test_a_copy_has_its_own_name_and_target(make_artifact: Make, tmp_path: Path) -> None:
    artifact = make_artifact()
    copied = artifact.copy_to(tmp_path / "deep" / "out", "other", "null?x=1", "shared.npz")
    assert Artifact.read(copied.manifest_path) == copied
    copied.check()
    assert (copied.payload, copied.sample, copied.target) == ("other.null", "shared.npz", "null?x=1")
    assert sorted(p.name for p in copied.folder.iterdir()) == ["other.json", "other.null", "shared.npz"]


@pytest.fixture
def bundled(make_artifact: Make) -> Artifact:
    """Give an artifact that has the program with its sample inside, too."""
    path = make_artifact().folder / "net_null.bpte"
    path.write_bytes(b"program and sample")
    return make_artifact(bundled=path.name, bundled_sha256=digest_path(path))


def test_a_bundled_program_is_part_of_its_artifact(bundled: Artifact, tmp_path: Path) -> None:
    assert Artifact.read(bundled.manifest_path) == bundled
    assert bundled.bundled_path == bundled.folder / "net_null.bpte"
    copied = bundled.copy_to(tmp_path / "out", "other", "null", "shared.npz")
    copied.check()
    assert copied.bundled == "other.bpte"
    assert sorted(p.name for p in copied.folder.iterdir()) == ["other.bpte", "other.json", "other.null", "shared.npz"]


@pytest.mark.parametrize("how", ["changed", "removed"])
def test_check_refuses_another_bundled_program(bundled: Artifact, how: str) -> None:
    assert bundled.bundled_path is not None
    if how == "removed":
        bundled.bundled_path.unlink()
    else:
        bundled.bundled_path.write_bytes(b"another")
    with pytest.raises(ArtifactError, match=r"net_null\.bpte is (missing|not the bundled program)"):
        bundled.check()


def test_an_artifact_that_a_bundle_describes_gets_a_manifest_of_its_own_when_copied(
    make_artifact: Make, tmp_path: Path
) -> None:
    described = dataclasses.replace(make_artifact(), described_by="manifest.json")
    assert described.manifest_path == described.folder / "manifest.json"
    copied = described.copy_to(tmp_path / "out", "own", "null", "s.npz")
    assert copied.manifest_path.name == "own.json"
    assert Artifact.read(copied.manifest_path) == copied


@pytest.mark.parametrize("before", ["nothing", "file", "folder"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_placing_replaces_what_was_there(tmp_path: Path, kind: str, before: str) -> None:
    def put(path: Path, what: str, text: str) -> None:
        if what == "folder":
            path.mkdir()
            (path / "inner").write_text(text)
        elif what == "file":
            path.write_text(text)

    source, destination = tmp_path / "source", tmp_path / "destination"
    put(source, kind, "new")
    put(destination, before, "old")
    _commit([_stage(source, destination)])
    assert digest_path(destination) == digest_path(source)
    assert destination.is_dir() == (kind == "folder")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_failed_copy_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    with pytest.raises(FileNotFoundError):
        _stage(tmp_path / "none", tmp_path / "old")
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_text() == "old"
