"""Writing a bundle: what docs/bundle.md says, and nothing of the user's is harmed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from cross_backend._version import __version__
from cross_backend.artifact import Artifact
from cross_backend.bundling import Bundle, write_bundle
from cross_backend.cache import Cache
from cross_backend.errors import UsageError
from cross_backend.loading.media import media_of
from cross_backend.lowering.lower import lower
from cross_backend.program.captured import Captured
from cross_backend.registry import resolve
from cross_backend.tensors import load_tensors
from cross_backend.verify.compare import tolerances_of
from cross_backend.workloads.media import ImageMedia
from tests.unit.bundling.bundles import LABELS, NULL, OPENVINO, TORCH, Write, content, edit, manifest, sha256


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
        "narrow_0.npy",
    }
    assert list((made / "loaders").iterdir())
    assert [path.name for path in made.parent.iterdir()] == ["typed"], "no scratch beside it"


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_its_sample_judges_as_the_captured_one(made: Path, captured: Captured, precision: str) -> None:
    here, there = (load_tensors(path) for path in (captured.sample_path, made / "sample"))
    assert tolerances_of(there, {"precision": precision}) == tolerances_of(here, {"precision": precision})
    assert there["narrow"][0].tolist() == here["narrow"][0].tolist()


def test_the_manifest_has_the_keys_of_the_page(made: Path, captured: Captured) -> None:
    row = manifest(made)
    assert set(row) == {
        "format", "version", "model", "program", "made_by", "inputs", "outputs", "structure", "media", "sample",
        "labels", "artifacts", "orders", "evidence",
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
        "cpu": "A processor", "ratio": None,
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


def test_what_the_model_works_on_is_kept_and_its_labels_are_said_once(made: Path) -> None:
    row = manifest(made)["media"]
    assert row["kind"] == "image" and row["labels"] is None and row["trained"] is False
    for artifact in Bundle.read(made).artifacts:
        assert media_of(artifact) == ImageMedia(labels=LABELS, trained=False)


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
