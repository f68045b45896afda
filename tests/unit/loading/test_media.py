"""The media of an artifact: from its own manifest, without a model, and with the tokenizer that lies beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from cross_backend.artifact import Artifact
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, UsageError
from cross_backend.loading.media import media_of
from cross_backend.lowering.lower import lower, relabelled
from cross_backend.program.writing import write_capture
from cross_backend.registry import resolve
from cross_backend.workloads import Workload, find_workload
from cross_backend.workloads.media import NumbersMedia, TextMedia

WORDS = Tokenizer(models.WordLevel({"[UNK]": 0, "cat": 1}, unk_token="[UNK]")).to_str()


@pytest.fixture
def text(tmp_path: Path) -> Artifact:
    """Give an artifact that says it takes texts."""
    import torch

    workload = Workload("net", torch.nn.Linear(4, 2), (torch.ones(1, 4),), media=TextMedia(ids=10, padding=0, tokens=4))
    (tmp_path / "captured").mkdir()
    captured = write_capture(workload, tmp_path / "captured")
    artifact = lower(captured, resolve("null"), Cache(tmp_path / "cache")).artifact
    return artifact.copy_to(tmp_path, "net", artifact.target, "sample.npz")


def test_a_manifest_keeps_what_its_workload_says(tmp_path: Path) -> None:
    workload = find_workload("linear_regression").build()
    captured = write_capture(workload, tmp_path)
    artifact = lower(captured, resolve("null"), Cache()).artifact
    assert media_of(Artifact.read(artifact.manifest_path)) == workload.media
    assert isinstance(workload.media, NumbersMedia)


def test_a_program_that_another_workload_made_first_has_the_media_of_the_one_that_asks(
    text: Artifact, tmp_path: Path
) -> None:
    """Artifacts of the cache are found by the program, of which media are no part."""
    import torch

    (tmp_path / "other").mkdir()
    other = write_capture(Workload("other", torch.nn.Linear(4, 2), (torch.ones(1, 4),)), tmp_path / "other")
    assert media_of(relabelled(text, other, resolve("null"))) is None


@pytest.mark.parametrize("damage", ["absent", "null"])
def test_an_older_manifest_has_none(damage: str, text: Artifact) -> None:
    row = json.loads(text.manifest_path.read_text())
    row.pop("media")
    text.manifest_path.write_text(json.dumps(row if damage == "absent" else row | {"media": None}))
    assert media_of(Artifact.read(text.manifest_path)) is None


@pytest.mark.parametrize("media", [5, "image", ["image"]])
def test_what_is_no_object_damages_the_manifest(media: object, text: Artifact) -> None:
    row = json.loads(text.manifest_path.read_text())
    text.manifest_path.write_text(json.dumps(row | {"media": media}))
    with pytest.raises(ArtifactError, match="media is no object"):
        Artifact.read(text.manifest_path)


def test_unknown_media_leave_the_artifact_usable_and_are_told_when_they_are_asked_for(text: Artifact) -> None:
    row = json.loads(text.manifest_path.read_text())
    text.manifest_path.write_text(json.dumps(row | {"media": {"kind": "smell"}}))
    artifact = Artifact.read(text.manifest_path)
    with pytest.raises(ArtifactError, match=r"net\.json: its media are of the unknown kind 'smell'"):
        media_of(artifact)


def test_the_tokenizer_beside_it_is_taken_and_another_if_it_is_named(text: Artifact, tmp_path: Path) -> None:
    read: Callable[..., TextMedia] = media_of
    assert read(text).tokenizer is None
    (tmp_path / "tokenizer.json").write_text(WORDS)
    assert read(text).prepare(b"cat")[0].tolist() == [[1, 0, 0, 0]]
    (tmp_path / "mine.json").write_text(WORDS.replace('"cat":1', '"cow":1'))
    assert read(text, tmp_path / "mine.json").prepare(b"cow")[0].tolist() == [[1, 0, 0, 0]]


def test_a_tokenizer_that_cannot_be_read_is_told(text: Artifact, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="does not exist"):
        media_of(text, tmp_path / "none.json")
    (tmp_path / "tokenizer.json").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        media_of(text)


def test_a_tokenizer_for_what_is_no_text_is_told(tmp_path: Path) -> None:
    artifact = lower(
        write_capture(find_workload("linear_regression").build(), tmp_path), resolve("null"), Cache()
    ).artifact
    with pytest.raises(UsageError, match="linear_regression takes numbers, and needs no tokenizer"):
        media_of(artifact, tmp_path / "tokenizer.json")
