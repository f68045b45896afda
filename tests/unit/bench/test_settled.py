"""What was checked is what is opened: where others can write, a checked copy is."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cross_backend.artifact import Artifact
from cross_backend.bench.open_artifact import settled
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError
from cross_backend.foreign_files import can_others_write

Make = Callable[..., Artifact]


@pytest.fixture
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """Not below a folder that a test opens to others."""
    return Cache(tmp_path_factory.mktemp("cache"))


def test_in_a_place_of_ones_own_nothing_is_copied(make_artifact: Make, cache: Cache) -> None:
    artifact = make_artifact()
    assert settled(artifact, cache) is artifact


@pytest.mark.parametrize("shared", ["folder", "payload", "sample"])
def test_where_others_write_a_copy_is_opened(shared: str, make_artifact: Make, cache: Cache) -> None:
    artifact = make_artifact()
    place = {"folder": artifact.folder, "payload": artifact.payload_path, "sample": artifact.sample_path}[shared]
    assert place is not None
    place.chmod(0o777)
    copied = settled(artifact, cache)
    before = copied.payload_path.read_bytes()
    assert copied.folder != artifact.folder and not can_others_write(copied.payload_path)
    artifact.payload_path.write_bytes(b"exchanged")
    assert copied.payload_path.read_bytes() == before
    copied.check()


def test_what_was_exchanged_after_the_check_is_refused(make_artifact: Make, cache: Cache) -> None:
    artifact = make_artifact()
    artifact.folder.chmod(0o777)
    artifact.check()
    artifact.payload_path.write_bytes(b"exchanged")
    with pytest.raises(ArtifactError, match="was changed, truncated or swapped"):
        settled(artifact, cache)


def test_who_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    file = folder / "f"
    file.touch(0o644)
    assert not can_others_write(file) and not can_others_write(folder)
    folder.parent.chmod(0o777)
    assert can_others_write(file), "who may write above may put another folder there"
    folder.parent.chmod(0o1777)
    assert not can_others_write(file), "in a sticky folder only its owner renames a file"
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    file.chmod(0o666)
    assert can_others_write(file) and can_others_write(folder) and can_others_write(tmp_path / "link" / "f")
    file.chmod(0o664)
    assert not can_others_write(file), "a group of one's own"
    if os.geteuid() == 0:
        os.chown(file, 12345, 12345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert can_others_write(file), "of another user"
    assert can_others_write(folder / "missing")
