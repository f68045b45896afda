"""The user's own inputs: ``.npz`` files, files that the model's media read, such as pictures, and folders of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.errors import UsageError
from cross_backend.foreign_files import open_regular, read_regular
from cross_backend.tensors import load_tensors

if TYPE_CHECKING:
    import numpy as np

    from cross_backend.workloads.media import Media

MOST = 64
"""Inputs of a run."""
MAX_BYTES = 64 << 20
"""Longest file of a medium."""


def digest_of(path: Path) -> str:
    """Return a digest of a file, or of all files in a folder.

    Raises:
        UsageError, ArtifactError: it is missing, or cannot be read.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist; --inputs takes .npz files, pictures, and folders of them.")
    digest = hashlib.sha256()
    for file in files_of(path):
        with open_regular(file) as opened:
            digest.update(f"{file.name}\0{hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    return digest.hexdigest()


def files_of(path: Path) -> list[Path]:
    """Return a file, or the files of a folder by their names."""
    return sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]


def read_own(path: Path, media: Media | None) -> Iterator[tuple[str, tuple[np.ndarray[Any, Any], ...]]]:
    """Yield name and tensors of each input in a file or folder.

    Args:
        path: an ``.npz`` whose members are ``input_0``, ``input_1``, … (or ``cat_0``, ``cat_1``, … for an input named
            cat), a file that the media read, or a folder of such files.
        media: what the model's inputs are made of; None where that are tensors.

    Raises:
        UsageError: there is none, there are too many, or a file is no input of this model.
        ArtifactError: a file cannot be read.
    """
    files = files_of(path)
    if not files:
        raise UsageError(f"{path} holds no files; --inputs takes .npz files, pictures, and folders of them.")
    count = 0
    for file in files:
        for name, arrays in read_file(file, media):
            count += 1
            if count > MOST:
                raise UsageError(f"{path} holds more than {MOST} inputs; give fewer.")
            yield name, arrays


def read_file(file: Path, media: Media | None) -> Iterator[tuple[str, tuple[np.ndarray[Any, Any], ...]]]:
    """Yield name and tensors of each input in one file; errors as :func:`read_own`."""
    if file.suffix == ".npz":
        for group, arrays in load_tensors(file).items():
            if not group.startswith("expected"):
                yield (file.name if group == "input" else f"{file.name}:{group}"), arrays
        return
    if media is None:
        raise UsageError(
            f"{file} is no .npz file, and this model takes tensors: numpy.savez({file.stem!r}, input_0=…)."
        )
    yield file.name, tuple(media.prepare(read_regular(file, MAX_BYTES), file.name))
