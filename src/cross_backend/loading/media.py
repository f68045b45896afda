"""The media of an artifact: what its manifest says of its inputs and outputs, and the tokenizer beside it."""

from __future__ import annotations

from pathlib import Path

from cross_backend.artifact import Artifact
from cross_backend.errors import ArtifactError, UsageError
from cross_backend.foreign_files import read_regular
from cross_backend.workloads.media import Media, TextMedia, read_media
from cross_backend.workloads.media.text import TOKENIZER


def media_of(artifact: Artifact, tokenizer: Path | None = None) -> Media | None:
    """Return what an artifact works on beside tensors; no model is built. None where the manifest says nothing.

    Args:
        artifact: with its manifest, or its bundle's.
        tokenizer: a ``tokenizer.json`` of transformers; a file of this name beside the artifact where None.

    Raises:
        ArtifactError: the manifest's description is damaged, or the tokenizer's file cannot be read.
        UsageError: the tokenizer is another model's, or is given for what is no text.
        UnavailableError: the package that reads tokenizers is not installed.
    """
    try:
        media = read_media(artifact.media)
    except ArtifactError as error:
        raise ArtifactError(f"{artifact.manifest_path}: {error}") from error
    path = tokenizer
    if path is None and isinstance(media, TextMedia) and (artifact.folder / TOKENIZER).is_file():
        path = artifact.folder / TOKENIZER
    return media if path is None else with_tokenizer_of(path, media, artifact.workload)


def with_tokenizer_of(path: Path, media: Media | None, workload: str) -> TextMedia:
    """Return media with the tokenizer of a file.

    Args:
        path: a ``tokenizer.json`` of transformers.
        media: of the model.
        workload: its name, for the reader.

    Raises:
        UsageError: the model takes no text, or the file is no tokenizer of it.
        ArtifactError: the file cannot be read.
        UnavailableError: the package that reads tokenizers is not installed.
    """
    if not isinstance(media, TextMedia):
        raise UsageError(f"{workload} takes {media.what if media else 'tensors'}, and needs no tokenizer.")
    try:
        text = read_regular(path).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8.") from None
    return media.with_tokenizer(text)
