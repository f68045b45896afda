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
    if not isinstance(media, TextMedia):
        if tokenizer is not None:
            raise UsageError(f"{artifact.workload} takes {media.what if media else 'tensors'}, and needs no tokenizer.")
        return media
    path = tokenizer or artifact.folder / TOKENIZER
    if tokenizer is None and not path.is_file():
        return media
    try:
        text = read_regular(path).decode()
    except UnicodeDecodeError:
        raise UsageError(f"{path} is no text in UTF-8.") from None
    return media.with_tokenizer(text)
