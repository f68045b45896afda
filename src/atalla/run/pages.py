"""Pages: memory for what a call reads whole, such as weights and caches, in large pages where there are some.

A processor that reads gigabytes a second looks up the place of each page of 4 kB, which costs a decoder's call a
quarter of its time. Linux has pages of 2 MB on request, but none for mapped files.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from atalla.isa.format import Bytes

LARGE = 2 << 20
"""Bytes of a large page."""
MAPPED = 32 << 20
"""Files below this size are mapped: they fit into a cache, or are read in moments."""
_SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")
"""Linux's setting for large pages; ``[never]`` means that there are none."""


@functools.cache
def has_large_pages() -> bool:
    """Return whether this machine's large pages can be asked for."""
    try:
        return hasattr(mmap, "MADV_HUGEPAGE") and "[never]" not in _SETTING.read_text(encoding="ascii")
    except OSError:
        return False


def new_pages(size: int) -> mmap.mmap:
    """Return memory of at least one byte, all zeros, that begins at a page."""
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows
        return mmap.mmap(-1, size)
    made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= LARGE and has_large_pages():
        with contextlib.suppress(OSError):  # a kernel without them: small pages do as well
            made.madvise(mmap.MADV_HUGEPAGE)
    return made


def map_file(path: str | os.PathLike[str]) -> Bytes:
    """Return the bytes of a file without reading them: they are there when they are looked at."""
    with Path(path).open("rb") as file:
        return _mapped(file)


def file_bytes(path: str | os.PathLike[str]) -> Bytes:
    """Return the bytes of a file: a large one is read into large pages, if there are some; others are mapped.

    Raises:
        OSError: it cannot be read, or becomes shorter while it is read.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size or size < MAPPED or not has_large_pages():
            return _mapped(file)
        made = new_pages(size)
        if file.readinto(made) < size:
            reason = f"{path} became shorter while it was read."
            raise OSError(reason)
        return made


def _mapped(file: BinaryIO) -> Bytes:
    if not os.fstat(file.fileno()).st_size:
        return b""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # private: nothing is ever written to the file
