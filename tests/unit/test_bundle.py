"""Bundles: what is written is what docs/bundle.md says, it is read back whole, and nothing of the user's is harmed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cross_backend as xb
from cross_backend._version import __version__
from cross_backend.artifact import Artifact
from cross_backend.bundle import Bundle, find_artifact, is_bundle, is_payload, open_bundle, write_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, UsageError
from cross_backend.lowering.lower import lower
from cross_backend.program.capture import Captured, write_capture
from cross_backend.registry import resolve
from cross_backend.remembered import Measured
from cross_backend.tensors import load_tensors
from cross_backend.workloads import Workload

Change = Callable[[dict[str, Any]], object]
NULL, TORCH, OPENVINO = "typed_null", "typed_torch", "typed_openvino"
LABELS = ("cat", "großer Hund", "")
MEASURED = Measured(2, 0.5, 0.4, 0.6, 1, "0123456789abcdef", "A processor")


class Typed(torch.nn.Module):
    """Two inputs, and outputs of many types and ranks."""

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        chosen = x[rows]
        return chosen.transpose(0, 1), (chosen * 10).to(torch.int64), chosen > 0, chosen.double().sum()


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    x = torch.arange(12, dtype=torch.float32).reshape(4, 3) - 5
    workload = Workload("typed", Typed(), (x, torch.tensor([3, 0])), labels=LABELS)
    return write_capture(workload, tmp_path_factory.mktemp("captured"))


@pytest.fixture(scope="module")
def rows(captured: Captured) -> list[tuple[Artifact, str, str, float]]:
    """Lower to a file, to a folder of files, and to a file again."""
    found = []
    for target in ("null", "openvino", "torch"):
        resolved = resolve(target)
        artifact = lower(captured, resolved, Cache()).artifact
        found.append((artifact, f"{captured.workload}_{resolved.stem}", resolved.backend.title, {"tolerance": 1e-4}))
    return found


Write = Callable[..., Path]


@pytest.fixture(scope="module")
def write(captured: Captured, rows: list[tuple[Artifact, str, str, float]]) -> Write:
    def written(parent: Path, **more: Any) -> Path:
        parent.mkdir(parents=True, exist_ok=True)
        orders = {"linux": [OPENVINO, TORCH], "web": [TORCH, NULL]}
        return write_bundle(captured, rows, orders, {TORCH: MEASURED}, parent, **more)

    return written


@pytest.fixture(scope="module")
def made(write: Write, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("made"))


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """Copy the bundle, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "bundle"))


def manifest(bundle: Path) -> dict[str, Any]:
    row: dict[str, Any] = json.loads((bundle / "manifest.json").read_bytes())
    return row


def edit(bundle: Path, change: Change) -> None:
    row = manifest(bundle)
    change(row)
    (bundle / "manifest.json").write_text(json.dumps(row))


def sha256(path: Path) -> str:
    """Give the digest that the page defines: of a file, or of the lines that list a folder's files."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    files = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
    return hashlib.sha256("".join(f"{name}\0{sha256(path / name)}\n" for name in files).encode()).hexdigest()


def content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# --- What is written


def test_the_folder_holds_what_the_page_lists_and_nothing_else(made: Path) -> None:
    assert made.name == "typed"
    assert {path.name for path in made.iterdir()} == {
        "manifest.json", "typed_null.null", "typed_openvino", "typed_torch.pt2", "sample", "labels.txt", "loaders",
    }  # fmt: skip
    assert {path.name for path in (made / "typed_openvino").iterdir()} == {"model.bin", "model.xml"}
    assert {path.name for path in (made / "sample").iterdir()} == {
        *(f"input_{i}.npy" for i in range(2)),
        *(f"input2_{i}.npy" for i in range(2)),
        *(f"{group}_{i}.npy" for group in ("expected", "expected2", "scale") for i in range(4)),
        "rounding_0.npy",
    }
    assert list((made / "loaders").iterdir())
    assert [path.name for path in made.parent.iterdir()] == ["typed"], "no scratch beside it"


def test_the_manifest_has_the_keys_of_the_page(made: Path, captured: Captured) -> None:
    row = manifest(made)
    assert set(row) == {
        "format", "version", "model", "program", "made_by", "inputs", "outputs", "structure", "sample", "labels",
        "artifacts", "orders",
    }  # fmt: skip
    assert (row["format"], row["version"], row["model"]) == ("cross-backend-bundle", 1, "typed")
    assert row["program"] == captured.digest
    assert row["made_by"] == {"cross-backend": __version__}
    assert [(spec["dtype"], spec["shape"]) for spec in row["inputs"]] == [("float32", [4, 3]), ("int64", [2])]
    assert [(spec["dtype"], spec["shape"]) for spec in row["outputs"]] == [
        ("float32", [3, 2]), ("int64", [2, 3]), ("bool", [2, 3]), ("float64", []),
    ]  # fmt: skip
    assert row["orders"] == {"linux": [OPENVINO, TORCH], "web": [TORCH, NULL]}


def test_each_artifact_has_the_keys_of_the_page(made: Path, rows: list[tuple[Artifact, str, str, float]]) -> None:
    found = manifest(made)["artifacts"]
    assert [row["name"] for row in found] == [NULL, OPENVINO, TORCH], "in fallback order"
    for row, (artifact, _, title, tolerances) in zip(found, rows, strict=True):
        assert set(row) == {
            "name", "target", "title", "path", "size_bytes", "sha256", "tolerance", "placement", "estimate", "versions",
            "export_s", "measured",
        }  # fmt: skip
        assert (row["target"], row["title"], row["tolerance"]) == (artifact.target, title, tolerances["tolerance"])
        assert row["placement"] == json.loads(json.dumps(artifact.placement.to_json()))
        assert row["versions"] == dict(artifact.versions)
        payload = made / row["path"]
        files = [payload] if payload.is_file() else [p for p in payload.rglob("*") if p.is_file()]
        assert row["size_bytes"] == sum(path.stat().st_size for path in files) > 0
        assert row["sha256"] == sha256(payload)
    assert [row["measured"] for row in found] == [None, None, {
        "rank": 2, "median_ms": 0.5, "low_ms": 0.4, "high_ms": 0.6, "threads": 1, "machine": "0123456789abcdef",
        "cpu": "A processor",
    }]  # fmt: skip


def test_the_sample_can_be_read_without_a_parser(made: Path, captured: Captured) -> None:
    wanted = load_tensors(captured.sample_path)
    for group, key in (("input", "inputs"), ("expected", "expected")):
        found = manifest(made)["sample"][key]
        assert len(found) == len(wanted[group])
        for index, (row, tensor) in enumerate(zip(found, wanted[group], strict=True)):
            assert set(row) == {"path", "dtype", "shape", "offset", "size_bytes", "sha256"}
            assert row["path"] == f"sample/{group}_{index}.npy" and row["sha256"] == sha256(made / row["path"])
            data = (made / row["path"]).read_bytes()
            assert len(data) == row["offset"] + row["size_bytes"]
            dtype = np.dtype(row["dtype"]).newbyteorder("<")
            raw = np.frombuffer(data[row["offset"] :], dtype).reshape(row["shape"])
            assert raw.dtype == tensor.dtype and np.array_equal(raw, tensor)
            assert np.array_equal(np.load(made / row["path"]), tensor)


def test_labels_are_one_name_a_line(made: Path) -> None:
    assert (made / "labels.txt").read_bytes() == "cat\ngroßer Hund\n\n".encode()
    assert manifest(made)["labels"] == {"path": "labels.txt", "sha256": sha256(made / "labels.txt")}
    assert Bundle.read(made).labels == LABELS


def test_a_model_without_classes_has_no_labels(linear: Captured, tmp_path: Path) -> None:
    artifact = lower(linear, resolve("null"), Cache()).artifact
    place = write_bundle(linear, [(artifact, "a", "Null", {"tolerance": 1e-4})], {}, {}, tmp_path)
    assert manifest(place)["labels"] is None and not (place / "labels.txt").exists()
    assert Bundle.read(place).labels == ()


def test_all_paths_are_relative_and_the_manifest_is_strict_json(made: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    text = (made / "manifest.json").read_text(encoding="utf-8")
    row = json.loads(text, parse_constant=refuse)
    assert str(made.parent) not in text
    samples = row["sample"]["inputs"] + row["sample"]["expected"]
    for path in [row["labels"]["path"], *(one["path"] for one in row["artifacts"] + samples)]:
        assert not path.startswith("/") and "\\" not in path and ".." not in path.split("/")
        assert (made / path).exists()


def test_the_same_content_gives_the_same_zip_file(made: Path, write: Write, tmp_path: Path) -> None:
    first, second = write(tmp_path / "1", zipped=True), write(tmp_path / "2", zipped=True)
    assert first == tmp_path / "1" / "typed.zip"
    assert [path.name for path in first.parent.iterdir()] == ["typed.zip"]
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == content(made)
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}


# --- What lies there already


def test_an_older_bundle_is_replaced_whole(bundle: Path, write: Write, made: Path) -> None:
    older = bundle.rename(bundle.with_name("typed"))
    edit(older, lambda row: row.update(version=99))  # one of another version is a bundle all the same
    (older / "typed_vulkan.pte").touch()
    assert write(older.parent) == older
    assert content(older) == content(made)
    assert [path.name for path in older.parent.iterdir()] == ["typed"]


def test_an_older_zip_file_is_replaced(write: Write, tmp_path: Path) -> None:
    place = write(tmp_path, zipped=True)
    whole = place.read_bytes()
    with zipfile.ZipFile(place, "a") as archive:
        archive.writestr("more", b"")
    assert write(tmp_path, zipped=True) == place and place.read_bytes() == whole


def test_an_empty_folder_is_filled(write: Write, made: Path, tmp_path: Path) -> None:
    (tmp_path / "typed").mkdir()
    assert content(write(tmp_path)) == content(made)


def _folder(place: Path) -> None:
    place.mkdir()
    (place / "thesis.txt").write_text("years of work")


def _web_app(place: Path) -> None:
    """Browsers' extensions and web apps have a file of that name, too."""
    _folder(place)
    (place / "manifest.json").write_text('{"name": "app", "manifest_version": 3}')


def _damaged(place: Path) -> None:
    _folder(place)
    (place / "manifest.json").write_text('{"format": "cross-backend-bun')


def _other_zip(place: Path) -> None:
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("thesis.txt", "years of work")


def _file(place: Path) -> None:
    place.write_text("years of work")


@pytest.mark.parametrize(
    ("lay", "zipped"),
    [(_folder, False), (_web_app, False), (_damaged, False), (_file, False), (_other_zip, True), (_file, True),
     (_folder, True)],
)  # fmt: skip
def test_what_is_no_bundle_is_left_alone(
    lay: Callable[[Path], None], zipped: bool, write: Write, tmp_path: Path
) -> None:
    lay(tmp_path / ("typed.zip" if zipped else "typed"))
    before = content(tmp_path)
    with pytest.raises(UsageError, match=r"typed(\.zip)? exists and is not a bundle; it is left alone"):
        write(tmp_path, zipped=zipped)
    assert content(tmp_path) == before


def test_when_writing_fails_the_older_bundle_is_untouched(
    captured: Captured, rows: list[tuple[Artifact, str, str, float]], write: Write, tmp_path: Path
) -> None:
    place = write(tmp_path)
    before = content(tmp_path)
    lost = rows[0][0].copy_to(tmp_path.parent / f"{tmp_path.name}_lost", "lost", "null", "sample.npz")
    lost.payload_path.unlink()
    with pytest.raises(OSError, match="lost"):
        write_bundle(captured, [*rows, (lost, "typed_lost", "Lost", {"tolerance": 1e-4})], {}, {}, tmp_path)
    assert content(tmp_path) == before and [path.name for path in tmp_path.iterdir()] == [place.name]


# --- What is read


def test_it_reads_what_was_written(
    made: Path, captured: Captured, rows: list[tuple[Artifact, str, str, float]]
) -> None:
    bundle = Bundle.read(made)
    assert (bundle.folder, bundle.model) == (made, "typed")
    for found, (artifact, name, _, _) in zip(bundle.artifacts, rows, strict=True):
        found.check()
        assert (found.name, found.workload, found.program) == (name, "typed", captured.digest)
        for field in (
            "target",
            "sha256",
            "size_bytes",
            "placement",
            "estimate",
            "versions",
            "inputs",
            "outputs",
            "structure",
        ):
            assert getattr(found, field) == getattr(artifact, field), field
        assert found.manifest_path == made / "manifest.json" and found.payload_path.exists()


@pytest.mark.parametrize("name", [TORCH, OPENVINO])
def test_its_artifacts_run(name: str, made: Path) -> None:
    (artifact,) = (a for a in Bundle.read(made).artifacts if a.name == name)
    sample = load_tensors(made / "sample")
    with xb.load(artifact.payload_path) as session:
        outputs = session(*sample["input"])
    for got, want in zip(outputs, sample["expected"], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_the_order_is_the_platforms_or_else_the_bundles_own(made: Path) -> None:
    bundle = Bundle.read(made)
    assert [a.name for a in bundle.ordered("linux")] == [OPENVINO, TORCH]
    assert [a.name for a in bundle.ordered("web")] == [TORCH, NULL]
    assert [a.name for a in bundle.ordered("ios")] == [NULL, OPENVINO, TORCH]


def test_reading_imports_nothing_heavy(made: Path, run_python: Callable[..., str]) -> None:
    script = (
        "import sys; from pathlib import Path; from cross_backend.bundle import Bundle\n"
        "for artifact in Bundle.read(Path(sys.argv[1])).artifacts: artifact.check()\n"
        "print(sorted({'numpy', 'torch', 'rich'} & set(sys.modules)))"
    )
    assert run_python(script, str(made)) == "[]\n"


def test_keys_that_it_does_not_know_are_ignored(bundle: Path) -> None:
    before = Bundle.read(bundle)

    def extend(row: dict[str, Any]) -> None:
        samples = row["sample"]["inputs"] + row["sample"]["expected"]
        placements = [artifact["placement"] for artifact in row["artifacts"]]
        for part in [row, row["sample"], row["labels"], *row["artifacts"], *placements, *row["inputs"], *samples]:
            part["invented_later"] = {"a": [1, None]}

    edit(bundle, extend)
    assert (bundle / "manifest.json").read_text().count("invented_later") == 17
    assert Bundle.read(bundle) == before


def zip_of(files: dict[str, bytes | str], path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


NEWER = '{"format": "cross-backend-bundle", "version": 7, "everything": "is different"}'


def test_a_newer_version_says_which_one_it_is(tmp_path: Path, cache: Cache) -> None:
    (tmp_path / "manifest.json").write_text(NEWER)
    wanted = r"manifest\.json has format version 7; this cross-backend reads up to 1\. Upgrade it\.$"
    with pytest.raises(ArtifactError, match=wanted):
        Bundle.read(tmp_path)
    with pytest.raises(ArtifactError, match=r"new\.zip/" + wanted):
        open_bundle(zip_of({"manifest.json": NEWER}, tmp_path / "new.zip"), cache)


def test_a_damaged_payload_spoils_no_other(bundle: Path) -> None:
    (bundle / "typed_openvino" / "model.bin").write_bytes(b"")
    (bundle / "typed_null.null").unlink()
    null, openvino, torch_ = Bundle.read(bundle).artifacts
    with pytest.raises(ArtifactError, match=r"typed_null\.null is missing"):
        null.check()
    with pytest.raises(ArtifactError, match=r"typed_openvino is not the payload that manifest\.json describes"):
        openvino.check()
    torch_.check()


@pytest.mark.parametrize("damage", ["changed", "missing", "one more"])
def test_a_damaged_sample_is_found(damage: str, bundle: Path) -> None:
    path = bundle / "sample" / "expected_0.npy"
    if damage == "changed":
        path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    elif damage == "missing":
        path.unlink()
    else:
        shutil.copyfile(path, path.with_name("expected_4.npy"))
    for artifact in Bundle.read(bundle).artifacts:
        with pytest.raises(ArtifactError, match="is not the sample"):
            artifact.check()


PATHS = [
    "/etc/passwd", "../typed_torch.pt2", "..", ".", "", "a/b", "a\\b", "C:x", "nul\0", "two\nlines", "\x1b[2J",
    "\ud800", None, 3, ["typed_torch.pt2"],
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("key", ["payload", "name", "model", "labels", "sample"])
def test_names_that_leave_the_folder_are_refused(key: str, path: object, bundle: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        if key == "payload":
            row["artifacts"][1]["path"] = path
        elif key == "name":
            row["artifacts"][1]["name"] = path
        elif key == "model":
            row["model"] = path
        elif key == "labels":
            row["labels"]["path"] = path
        else:
            row["sample"]["inputs"][0]["path"] = f"sample/{path}" if isinstance(path, str) else path

    edit(bundle, change)
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged or not a bundle's manifest") as caught:
        Bundle.read(bundle)
    assert str(caught.value).isprintable(), "one line"


REFUSED: dict[str, tuple[Change, str]] = {
    "another format": (lambda row: row.update(format="cross-backend-artifact"), "format is 'cross-backend-artifact'"),
    "a sample elsewhere": (lambda row: row["sample"]["inputs"][0].update(path="input_0.npy"), "not lie in sample/"),
    "a sample too few": (lambda row: row["sample"]["expected"].pop(), "outputs must be .* one tensor each"),
    "no sample": (lambda row: row.update(sample={"inputs": [], "expected": []}), "inputs must be"),
    "too many inputs": (
        lambda row: [rows.extend(rows * 500) for rows in (row["inputs"], row["sample"]["inputs"])],
        "inputs must be at most 1000",
    ),
    "no artifacts": (lambda row: row.update(artifacts=[]), "1 to 100 artifacts"),
    "artifacts by name": (lambda row: row.update(artifacts={"a": row["artifacts"][0]}), "1 to 100 artifacts"),
    "too many artifacts": (lambda row: row.update(artifacts=row["artifacts"] * 34), "1 to 100 artifacts"),
    "one name twice": (lambda row: row["artifacts"][0].update(name=TORCH), "two artifacts have one name"),
    "an order of strangers": (lambda row: row["orders"].update(web=["nobody"]), "'nobody', which is no artifact"),
    "an order with repeats": (lambda row: row["orders"].update(web=[TORCH, TORCH]), "names an artifact twice"),
    "a negative size": (lambda row: row["artifacts"][0].update(size_bytes=-1), "-1 is no size"),
    "an endless size": (lambda row: row["artifacts"][0].update(size_bytes=1 << 63), "is no size"),
    "no number": (lambda row: row["artifacts"][0].update(export_s=float("nan")), "not JSON compliant"),
    "an infinite estimate": (lambda row: row["artifacts"][0].update(estimate={"cycles": "inf"}), "not JSON compliant"),
    "an endless share": (
        lambda row: row["artifacts"][0]["placement"].update(flop_coverage="inf"),
        "not JSON compliant",
    ),
    "no target": (lambda row: row["artifacts"][0].update(target="../x"), "not a target"),
    "other labels": (lambda row: row["labels"].update(sha256="0" * 64), "labels.txt was changed"),
    "a structure of less": (
        lambda row: row.update(structure={"arguments": [], "outputs": "tensor"}),
        "other numbers of inputs or outputs",
    ),
    "code in a structure": (
        lambda row: row.update(
            structure={"arguments": [], "outputs": {"named": "P", "fields": [["x=print(1)", "tensor"]]}}
        ),
        "must be valid identifiers",
    ),
    "no version": (lambda row: row.pop("version"), "KeyError: 'version'"),
    "a version in words": (lambda row: row.update(version="two"), "invalid literal"),
}  # fmt: skip


def test_a_manifest_that_was_written_before_structures_gives_flat_outputs(bundle: Path) -> None:
    edit(bundle, lambda row: row.pop("structure"))
    (artifact,) = (a for a in Bundle.read(bundle).artifacts if a.name == TORCH)
    sample = load_tensors(bundle / "sample")
    with xb.load(artifact) as session:
        outputs = session(*sample["input"])
    assert isinstance(outputs, tuple) and len(outputs) == len(sample["expected"])


@pytest.mark.parametrize("what", REFUSED)
def test_a_manifest_that_makes_no_sense_is_refused(what: str, bundle: Path) -> None:
    change, said = REFUSED[what]
    edit(bundle, change)
    with pytest.raises(ArtifactError, match=said):
        Bundle.read(bundle)


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "1", "{}", "\0", "[" * 100_000, '{"format": "cross-backend-bundle"']
)
def test_a_file_that_is_no_manifest_is_refused(text: str, bundle: Path) -> None:
    (bundle / "manifest.json").write_text(text)
    with pytest.raises(ArtifactError, match=r"manifest\.json is damaged or not a bundle's manifest \("):
        Bundle.read(bundle)


def test_a_manifest_that_is_too_long_is_not_parsed(bundle: Path) -> None:
    with (bundle / "manifest.json").open("ab") as file:
        file.truncate(17 << 20)
    with pytest.raises(ArtifactError, match="longer than 16 MiB"):
        Bundle.read(bundle)


def test_a_folder_that_is_no_bundle_says_so(tmp_path: Path, cache: Cache) -> None:
    with pytest.raises(ArtifactError, match=r"is not a bundle: it has no manifest\.json"):
        Bundle.read(tmp_path)
    with pytest.raises(ArtifactError, match=r"none\.zip does not exist"):
        open_bundle(tmp_path / "none.zip", cache)


# --- Zip files


def test_a_zip_file_is_unpacked_once(write: Write, made: Path, tmp_path: Path, cache: Cache) -> None:
    path = write(tmp_path, zipped=True)
    first = open_bundle(path, cache)
    assert cache.root in first.folder.parents
    unpacked = {name: data for name, data in content(made).items() if not name.startswith("loaders/")}
    assert content(first.folder) == unpacked
    assert [a.name for a in first.artifacts] == [NULL, OPENVINO, TORCH] and first.labels == LABELS
    for artifact in first.artifacts:
        artifact.check()
    inode = (first.folder / "manifest.json").stat().st_ino
    assert open_bundle(path, cache) == first
    assert (first.folder / "manifest.json").stat().st_ino == inode
    assert not list((cache.root / "tmp").iterdir())


def test_an_unpacked_copy_that_was_damaged_is_made_again(write: Write, tmp_path: Path, cache: Cache) -> None:
    path = write(tmp_path, zipped=True)
    first = open_bundle(path, cache)
    (first.folder / "manifest.json").write_text("{")
    assert open_bundle(path, cache) == first


def test_another_zip_file_is_another_bundle(made: Path, tmp_path: Path, cache: Cache) -> None:
    whole = content(made)
    first = open_bundle(zip_of(whole, tmp_path / "a.zip"), cache)
    second = open_bundle(zip_of({**whole, "more": b""}, tmp_path / "a.zip"), cache)
    assert first.folder != second.folder


def test_what_the_manifest_does_not_name_is_not_unpacked(made: Path, tmp_path: Path, cache: Cache) -> None:
    strangers = {"../up": "x", "/abs": "x", "more/deep": "x", "sample/expected_0.npy/../../../up": "x"}
    whole = content(made)
    with pytest.raises(ArtifactError, match=r"'\.\.' is not a plain file name"):
        open_bundle(zip_of({**whole, **strangers}, tmp_path / "a.zip"), cache)
    del strangers["sample/expected_0.npy/../../../up"]
    found = open_bundle(zip_of({**whole, **strangers}, tmp_path / "b.zip"), cache)
    assert content(found.folder).keys() == {name for name in whole if not name.startswith("loaders/")}
    assert {path.name for path in tmp_path.iterdir()} == {"a.zip", "b.zip", "cache"}


def test_a_deflated_zip_file_is_fine(made: Path, tmp_path: Path, cache: Cache) -> None:
    archive = shutil.make_archive(str(tmp_path / "again"), "zip", made)
    with zipfile.ZipFile(archive) as file:
        assert {info.compress_type for info in file.infolist()} >= {zipfile.ZIP_DEFLATED}
    for artifact in open_bundle(Path(archive), cache).artifacts:
        artifact.check()


# --- Artifacts of a bundle


def test_a_payload_is_found_in_its_bundle(made: Path) -> None:
    assert find_artifact(made / "typed_torch.pt2").name == TORCH
    assert find_artifact(made / "typed_openvino").name == OPENVINO
    with pytest.raises(ArtifactError, match=r"manifest\.json does not name labels\.txt"):
        find_artifact(made / "labels.txt")
    with pytest.raises(ArtifactError, match="does not exist"):
        find_artifact(made / "typed_vulkan.pte")


def test_an_artifact_of_its_own_is_found_by_its_own_manifest(bundle: Path, make_artifact: Any) -> None:
    alone = make_artifact(folder=bundle)
    assert find_artifact(alone.payload_path) == find_artifact(alone.manifest_path) == alone


def test_a_folder_is_told_apart_from_a_payload(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_bundle(made) and not is_bundle(made / "typed_openvino") and not is_bundle(made.parent)
    assert is_payload(made / "typed_openvino") and not is_payload(made / "sample") and not is_payload(made)
    monkeypatch.chdir(made / "typed_openvino")
    assert is_payload(Path()) and is_payload(Path("../typed_openvino"))
    assert find_artifact(Path()).name == OPENVINO
    with pytest.raises(ArtifactError, match="is no artifact"):
        find_artifact(Path(os.sep))
