"""Foreign files: opened only if they are files, read only so far, unpacked only so much.

A pipe blocks whoever opens it, a device may never end, and a few kilobytes of zip file unpack to gigabytes. What others
made is therefore opened by the functions here and nowhere else.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from atalla.files.archive import check_whole
from cross_backend.errors import ArtifactError

MAX_MANIFEST_BYTES = 16 << 20
"""Longer manifests, and lists of labels, are refused before they are parsed."""
MAX_UNPACKED = 100
"""How many times its own size a zip file may unpack to, beside what a reader allows every file."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)
"""Windows has neither pipes nor devices among its files."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading; links are followed.

    Raises:
        ArtifactError: missing, unreadable, or a pipe, a device, a socket or a folder.
    """
    try:
        _check_kind(path, path.stat())  # opening a device may already do something
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115
    except (FileNotFoundError, NotADirectoryError):
        raise ArtifactError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero in its name
        raise ArtifactError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
    try:
        _check_kind(path, os.fstat(file.fileno()))  # it may have been swapped in between
    except ArtifactError:
        file.close()
        raise
    return file


def read_regular(path: Path, limit: int = MAX_MANIFEST_BYTES) -> bytes:
    """Read a file of at most ``limit`` bytes.

    Raises:
        ArtifactError: longer, or as :func:`open_regular`.
    """
    with open_regular(path) as file:
        try:
            data = file.read(limit + 1)
        except OSError as error:
            raise ArtifactError(f"{path} cannot be read: {error.strerror}.") from error
    if len(data) > limit:
        raise ArtifactError(f"{path} is longer than {limit >> 20} MiB, which nothing of its kind is.")
    return data


def _check_kind(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ArtifactError(f"{path} is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, not a file.")


def can_others_write(path: Path) -> bool:
    """Whether another user of this machine could change a file or folder, or put something else in its place."""
    if not hasattr(os, "geteuid"):
        return False
    whole = path.resolve()
    inside = whole.rglob("*") if whole.is_dir() else ()
    return any(map(_is_open, {whole, *inside, *whole.parents, *path.absolute().parents}))


def _is_open(path: Path) -> bool:
    """Whether others may write here; root may anyway. In a sticky folder everybody changes what is theirs only."""
    try:
        found = path.stat()
    except OSError:
        return True
    if found.st_uid not in {0, os.geteuid()}:
        return True
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return False
    by_group = bool(found.st_mode & stat.S_IWGRP) and found.st_gid not in {0, os.getegid()}
    return by_group or bool(found.st_mode & stat.S_IWOTH)


@contextlib.contextmanager
def open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip file that nobody vouches for.

    Raises:
        ArtifactError: as :func:`open_regular`.
        ValueError, ...: one of ``atalla.files.archive.DAMAGE``: damaged, or a byte belongs to no member or to two.
    """
    with open_regular(path) as file:
        check_whole(file)
        with zipfile.ZipFile(file) as archive:
            yield archive


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member, which holds no more than the size that the table of contents announces.

    Raises:
        ValueError: packed in another way than zip files usually are, whose decoders allocate what they are told to.
    """
    if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
        raise ValueError(f"{info.filename} is neither stored nor deflated")
    return archive.open(info)
