"""Zip files: whole archives of any writer pass, their copies hold the same members, ambiguous ones are refused."""

from __future__ import annotations

import io
import random
import shutil
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from atalla.files.archive import DAMAGE, check_stored, check_whole, rewritten
from tests.two_archives import two_archives


def zipped(method: int = zipfile.ZIP_STORED, **members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


class Pipe(io.RawIOBase):
    """What cannot seek: sizes follow the members."""

    def __init__(self) -> None:
        self.written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.written += data
        return len(data)


def by_numpy(packed: bool) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, a=np.arange(4), b=np.zeros((2, 3)))
    return file.getvalue()


def by_torch() -> bytes:
    file = io.BytesIO()
    torch.save({"a": torch.ones(3)}, file)
    return file.getvalue()


def exported() -> bytes:
    file = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(4, 2).eval(), (torch.ones(1, 4),)), file)
    return file.getvalue()


def through_a_pipe() -> bytes:
    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[call-overload]
        archive.writestr("a", b"x" * 300)
    return bytes(pipe.written)


def with_sizes_of_64_bits() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive, archive.open("a", "w", force_zip64=True) as member:
        member.write(b"abc")
    return file.getvalue()


def with_a_comment() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"x")
        archive.comment = b"made by hand"
    return file.getvalue()


SOUND: dict[str, Callable[[], bytes]] = {
    "empty": zipped,
    "stored": lambda: zipped(a=b"1", b=b""),
    "deflated": lambda: zipped(zipfile.ZIP_DEFLATED, a=b"1" * 999),
    "np.savez": lambda: by_numpy(packed=False),
    "np.savez_compressed": lambda: by_numpy(packed=True),
    "torch.save": by_torch,
    "torch.export.save": exported,
    "streamed": through_a_pipe,
    "64 bits": with_sizes_of_64_bits,
    "a comment": with_a_comment,
}


@pytest.mark.parametrize("name", SOUND)
def test_a_whole_archive_passes_whoever_wrote_it(name: str) -> None:
    check_whole(io.BytesIO(SOUND[name]()))


@pytest.mark.skipif(not shutil.which("zip"), reason="zip is not installed: apt-get install zip")
def test_archives_of_info_zip_pass(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 100)
    for arguments in (["-q", "file.zip", "a.txt"], ["-q", "-0", "stored.zip", "a.txt"]):
        subprocess.run(["zip", *arguments], cwd=tmp_path, check=True)
        with (tmp_path / arguments[-2]).open("rb") as file:
            check_whole(file)


def test_the_copy_holds_the_members_of_the_archive() -> None:
    data = exported()
    with zipfile.ZipFile(io.BytesIO(data)) as old, rewritten(io.BytesIO(data)) as copy, zipfile.ZipFile(copy) as new:
        assert new.namelist() == old.namelist()
        assert all(new.read(name) == old.read(name) for name in old.namelist())
        check_whole(copy)


def changed(data: bytes, at: int, form: str, value: int) -> bytes:
    made = bytearray(data)
    struct.pack_into(form, made, at, value)
    return bytes(made)


PLAIN = zipped(a=b"one", b=b"two")
TABLE = PLAIN.index(b"PK\1\2")
AMBIGUOUS = {
    "two tables": two_archives(zipped(a=b"good"), zipped(a=b"evil")),
    "bytes before": b"#!/bin/sh\n" + PLAIN,
    "bytes behind": PLAIN + b"x",
    "bytes between members and table": changed(PLAIN[:TABLE] + b"xx" + PLAIN[TABLE:], len(PLAIN) - 4, "<I", TABLE + 2),
    "a second end in the comment": PLAIN[:-2] + struct.pack("<H", 22) + PLAIN[-22:],
    "another size in the header": changed(PLAIN, 18, "<I", 2),
    "another checksum in the header": changed(PLAIN, 14, "<I", 2),
    "another method in the header": changed(PLAIN, 8, "<H", 8),
    "another name in the header": PLAIN[:30] + b"c" + PLAIN[31:],
    "one member twice": changed(PLAIN, PLAIN.rindex(b"PK\1\2") + 42, "<I", 0),
    "one member more than told": changed(PLAIN, len(PLAIN) - 12, "<H", 1),
    "encrypted": changed(changed(PLAIN, 6, "<H", 1), TABLE + 8, "<H", 1),
    "cut": PLAIN[:-1],
    "no archive": b"x" * 100,
    "nothing": b"",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_archive_that_two_readers_may_read_differently_is_refused(name: str) -> None:
    with pytest.raises(DAMAGE):
        check_whole(io.BytesIO(AMBIGUOUS[name]))


def test_one_name_twice_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", b"2")
    with pytest.raises(ValueError, match="one name"):
        check_whole(file)


@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_what_passes_is_read_alike_by_a_reader_that_believes_the_end_record(count: int) -> None:
    """Damaged archives are refused, or hold the members that a second, simple reader finds."""
    rng, passed = random.Random(0), 0
    for _ in range(count):
        made = bytearray(rng.choice((PLAIN, by_numpy(packed=False), two_archives(PLAIN, PLAIN))))
        for _ in range(rng.choice((0, 1, 1, 2, 8))):
            made[rng.randrange(len(made))] = rng.choice((0, 1, 0xFF, rng.randrange(256)))
        try:
            check_whole(io.BytesIO(bytes(made)))
            with zipfile.ZipFile(io.BytesIO(bytes(made))) as archive:
                found = {info.filename: archive.read(info) for info in archive.infolist()}
        except (*DAMAGE, UnicodeDecodeError):
            continue
        passed += 1
        assert list(found.values()) == by_the_end_record(bytes(made))
    assert passed


def by_the_end_record(data: bytes) -> list[bytes]:
    """Read stored members as C readers do: the table lies where the end record says."""
    *_, count, _, at, _ = struct.unpack_from("<4s4H2IH", data, data.rindex(b"PK\5\6"))
    members = []
    for _ in range(count):
        packed, name, extra, comment = struct.unpack_from("<I4x3H", data, at + 20)
        (offset,) = struct.unpack_from("<I", data, at + 42)
        start = offset + 30 + sum(struct.unpack_from("<2H", data, offset + 26))
        members.append(data[start : start + packed])
        at += 46 + name + extra + comment
    return members


@pytest.mark.parametrize("new", [True, False])
def test_checkpoints_of_torch_pass_in_both_formats(new: bool) -> None:
    file = io.BytesIO()
    torch.save({"weight": torch.ones(3)}, file, _use_new_zipfile_serialization=new)
    file.seek(0)
    check_stored(file)
    assert torch.load(file, weights_only=True)["weight"].tolist() == [1, 1, 1]


def test_checkpoints_that_unpack_to_gigabytes_are_refused() -> None:
    packed = zipped(zipfile.ZIP_DEFLATED, zeros=bytes(64 << 20))
    assert len(packed) < 1 << 17
    with pytest.raises(ValueError, match="compressed"):
        check_stored(io.BytesIO(packed))
    with pytest.raises(ValueError, match="table of contents does not end"):
        check_stored(io.BytesIO(two_archives(zipped(a=b"1"), zipped(b=b"2"))))
