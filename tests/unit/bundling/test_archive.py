"""Bundles in zip files, and artifacts that lie in a bundle."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from cross_backend.bundling import find_artifact, is_bundle, is_payload, open_bundle
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError
from tests.unit.bundling.bundles import LABELS, NULL, OPENVINO, TORCH, Write, content, zip_of


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
