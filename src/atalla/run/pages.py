"""Pages: memory for what a call reads whole, such as weights and caches, in large pages where there are some.

A processor that reads gigabytes a second looks up the place of each page of 4 kB, which costs a decoder's call a
quarter of its time. Linux has pages of 2 MB for who asks; files that are mapped get none.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from atalla.isa.format import Bytes

LARGE = 2 << 20
"""Bytes of a large page."""
MAPPED = 32 << 20
"""Files below this size are mapped: they fit into a cache, or are read in moments."""
_CAN_ASK = hasattr(mmap, "MADV_HUGEPAGE")


def new_pages(size: int) -> mmap.mmap:
    """Return memory of at least one byte, all zeros, that begins at a page."""
    if not _CAN_ASK:
        return mmap.mmap(-1, size)
    made = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= LARGE:
        with contextlib.suppress(OSError):  # a kernel without them: small pages do as well
            made.madvise(mmap.MADV_HUGEPAGE)
    return made


def map_file(path: str | os.PathLike[str]) -> Bytes:
    """Return the bytes of a file without reading them: they are there when they are looked at."""
    with Path(path).open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return b""
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)  # private: nothing is ever written to the file


def file_bytes(path: str | os.PathLike[str]) -> Bytes:
    """Return the bytes of a file: a large one is read; a small one is mapped, and read when it is looked at.

    Raises:
        OSError: it cannot be read, or becomes shorter while it is read.
    """
    with Path(path).open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if not size or size < MAPPED or not _CAN_ASK:
            return map_file(path)
        made, done = new_pages(size), 0
        with memoryview(made) as room:
            while done < size:
                count = file.readinto(room[done:])
                if not count:
                    reason = f"{path} became shorter while it was read."
                    raise OSError(reason)
                done += count
        return made
