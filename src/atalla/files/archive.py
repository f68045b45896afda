"""Zip files of strangers: read only if every byte is accounted for, and rewritten before another parser opens them.

Parsers find a zip file's table of contents in different ways, so that one file may hold two archives: the one that is
checked and the one that is opened. Here an archive is its members, its table and its end, one after the other from the
first byte to the last; what a library is given is a copy written from the members that were read.
"""

from __future__ import annotations

import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, EOFError, ValueError)
"""What reading a damaged, encrypted or ambiguous archive may raise."""
MAX_TABLE_BYTES = 4 << 20
"""Longest table of contents."""
IN_MEMORY_BYTES = 64 << 20
"""Longest copy that is kept in memory; longer ones lie in a temporary file."""
_END, _END64, _LOCATOR = struct.Struct("<4s4H2IH"), struct.Struct("<4sQ2H2I4Q"), struct.Struct("<4sIQI")
_ENTRY, _LOCAL = struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s5H3I2H")
_FULL = 0xFFFFFFFF
_MAGIC = b"PK\3\4"
_ENCRYPTED, _SIZES_FOLLOW = 1, 8


@dataclass(frozen=True)
class _Member:
    """A row of the table of contents."""

    name: bytes
    flags: int
    method: int
    crc: int
    packed: int
    unpacked: int
    offset: int


@contextmanager
def rewritten(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield a copy of an archive, made from its members: stored, in their order, under their names.

    Args:
        file: open for reading, seekable. Its members must be stored, so that the copy is as long as the archive.

    Raises:
        ValueError, ...: one of ``DAMAGE``.
        OSError: the file cannot be read, or the disk for temporary files is full.
    """
    check_whole(file)
    with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES) as copy, zipfile.ZipFile(file) as archive:
        with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as whole:
            for info in archive.infolist():
                if info.compress_type != zipfile.ZIP_STORED:
                    raise ValueError("its members are compressed")
                fresh = zipfile.ZipInfo(info.filename)
                fresh.file_size = info.file_size
                with archive.open(info) as source, whole.open(fresh, "w") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        copy.seek(0)
        yield copy


def check_stored(file: IO[bytes]) -> None:
    """Refuse a file of ``torch.save`` that is an archive and ambiguous, or whose members unpack to more than they are.

    Args:
        file: open for reading, seekable; it is at its start afterwards. What is no archive is of torch's old format.

    Raises:
        ValueError, ...: one of ``DAMAGE``.
    """
    if file.read(len(_MAGIC)) == _MAGIC:  # by these bytes torch recognises it, too
        check_whole(file)
        with zipfile.ZipFile(file) as archive:
            if any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist()):
                raise ValueError("its members are compressed, which torch.save does not do")
    file.seek(0)


def check_whole(file: IO[bytes]) -> None:
    """Refuse an archive that two parsers could read differently.

    Args:
        file: open for reading, seekable.

    Raises:
        ValueError: a byte belongs to no member, to two, or to a second table of contents; the table contradicts a
            member's own header; two members have one name; a member is encrypted.
    """
    start, size = _table(file)
    file.seek(start)
    members = list(_members(file.read(size)))
    if len({member.name for member in members}) != len(members):
        raise ValueError("two of its members have one name")
    expected = 0
    for member in sorted(members, key=lambda member: member.offset):
        if member.offset != expected:
            raise ValueError(f"{abs(member.offset - expected)} bytes at {expected} belong to no member or to two")
        expected = _end_of(file, member)
    if expected != start:
        raise ValueError(f"{abs(start - expected)} bytes before its table of contents belong to no member or to two")
    file.seek(0)


def _table(file: IO[bytes]) -> tuple[int, int]:
    """Return offset and size of the table of contents, which ends where the end record begins."""
    length = file.seek(0, 2)
    tail_at = max(0, length - _END.size - 0xFFFF)
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) < at + _END.size:
        raise ValueError("it is not a zip file")
    _, disk, table_disk, here, count, size, start, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        raise ValueError("bytes follow its end record")
    end = tail_at + at
    full = 0xFFFF in (here, count) or _FULL in (size, start)
    if end >= _LOCATOR.size + _END64.size:
        file.seek(end - _LOCATOR.size)
        mark, _, wide_at, _ = _LOCATOR.unpack(file.read(_LOCATOR.size))
        if mark == b"PK\6\7":
            end -= _LOCATOR.size + _END64.size
            file.seek(end)
            mark, rest, *_, disk, table_disk, here, count, size64, start64 = _END64.unpack(file.read(_END64.size))
            agree = size in (_FULL, size64) and start in (_FULL, start64)
            if (mark, rest, wide_at) != (b"PK\6\6", _END64.size - 12, end) or not agree:
                raise ValueError("its two end records contradict each other")
            size, start, full = size64, start64, False
    if full or disk or table_disk or here != count:
        raise ValueError("it is a part of several files")
    if start + size != end:
        raise ValueError("its table of contents does not end where its end record begins")
    if size > MAX_TABLE_BYTES:
        raise ValueError(f"its table of contents is longer than {MAX_TABLE_BYTES >> 20} MiB")
    file.seek(start)
    if count != sum(1 for _ in _members(file.read(size))):
        raise ValueError("its table of contents has another length than its end record says")
    return start, size


def _members(table: bytes) -> Iterator[_Member]:
    at = 0
    while at < len(table):
        mark, _, _, flags, method, _, _, crc, packed, unpacked, name, extra, comment, disk, _, _, offset = (
            _ENTRY.unpack_from(table, at)
        )
        end = at + _ENTRY.size + name + extra + comment
        if mark != b"PK\1\2" or end > len(table) or disk:
            raise ValueError("its table of contents is damaged")
        if flags & _ENCRYPTED:
            raise ValueError("its members are encrypted")
        names_end = at + _ENTRY.size + name
        sizes = _widened(table[names_end : names_end + extra], [unpacked, packed, offset])
        yield _Member(table[at + _ENTRY.size : names_end], flags, method, crc, sizes[1], sizes[0], sizes[2])
        at = end


def _widened(extra: bytes, sizes: list[int]) -> list[int]:
    """Return sizes with those of the zip64 field in place of the ones that are full."""
    at, found = 0, sizes
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        at += 4
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - at) // 8}Q", extra, at))
            found = [next(wide, size) if size == _FULL else size for size in sizes]
            break
        at += length
    return found


def _end_of(file: IO[bytes], member: _Member) -> int:
    """Return where a member ends, after comparing its own header with its row of the table."""
    file.seek(member.offset)
    mark, _, flags, method, _, _, crc, packed, unpacked, length, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    name = file.read(length)
    unpacked, packed = _widened(file.read(extra), [unpacked, packed])
    told = (crc, packed, unpacked) == (member.crc, member.packed, member.unpacked)
    follow = bool(flags & _SIZES_FOLLOW)
    if (mark, flags, method, name) != (b"PK\3\4", member.flags, member.method, member.name) or not (told or follow):
        raise ValueError(f"the header of {member.name[:80]!r} contradicts the table of contents")
    end = file.tell() + member.packed
    if not follow:
        return end
    file.seek(end)
    behind = file.read(24)
    for sizes in ("<IQQ", "<III"):
        if sizes == "<III" and max(member.packed, member.unpacked) > _FULL:
            break
        record = struct.pack(sizes, member.crc, member.packed, member.unpacked)
        for described in (b"PK\7\x08" + record, record):
            if behind.startswith(described):
                return end + len(described)
    raise ValueError(f"the sizes behind {member.name[:80]!r} contradict the table of contents")
