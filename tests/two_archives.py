"""One zip file that is two archives: Python's reader sees the first, readers that believe the end record the second."""

from __future__ import annotations

import io
import struct
import zipfile


def two_archives(shown: bytes, hidden: bytes) -> bytes:
    """Join two zip files of the same members, written by ``zipfile``.

    Python looks for the table of contents just before the end record; others, where the end record says it begins.
    """
    members, table, end = _parts(shown)
    hidden_members, hidden_table, _ = _parts(hidden)
    assert len(table) == len(hidden_table) and len(hidden_members) >= len(members)
    moved, at = bytearray(table), 0
    while at < len(moved):
        name, extra, comment = struct.unpack_from("<3H", moved, at + 28)
        (offset,) = struct.unpack_from("<I", moved, at + 42)
        struct.pack_into("<I", moved, at + 42, offset + len(hidden_members) - len(members))
        at += 46 + name + extra + comment
    changed_end = bytearray(end)
    struct.pack_into("<I", changed_end, 16, len(hidden_members))
    return hidden_members + hidden_table + members + bytes(moved) + bytes(changed_end)


def _parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the members, the table of contents and the end record of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        start = archive.start_dir
    return data[:start], data[start:-22], data[-22:]
