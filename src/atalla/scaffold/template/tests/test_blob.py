"""Blobs: what is damaged is refused, by the reader in Python and the driver in C, in the same words."""

from __future__ import annotations

import random
import struct
import zlib

import nets
import numpy as np
import pytest
from test_compiler import compiled

from mychip.blob import MAGIC, write
from mychip.errors import BlobError
from mychip.executors import EXECUTORS
from mychip.reader import read


def verdicts(data: bytes) -> set[str]:
    """Return what each executor says of the bytes; an empty text where it opens them."""
    found = set()
    for open_blob in EXECUTORS.values():
        try:
            open_blob(data)
            found.add("")
        except BlobError as error:
            found.add(str(error))
    return found


def sealed(body: bytes) -> bytes:
    """Return bytes with a checksum that holds."""
    return MAGIC + struct.pack("<II", 1, zlib.crc32(body)) + body


@pytest.fixture(scope="module")
def blob() -> bytes:
    return compiled(nets.runs()["residual"])


def test_what_is_read_is_what_was_written(blob: bytes) -> None:
    assert write(read(blob)) == blob


def test_every_byte_counts(blob: bytes) -> None:
    for at in range(0, len(blob), 1 if len(blob) < 4096 else 7):
        damaged = bytearray(blob)
        damaged[at] ^= 1 << at % 8
        (verdict,) = verdicts(bytes(damaged))
        assert verdict, at


@pytest.mark.parametrize("data", [b"", b"MYCHIP__", b"\x7fELF" + bytes(100)])
def test_what_is_no_blob(data: bytes) -> None:
    assert verdicts(data) == {"no blob of mychip"}


def test_what_is_cut_off_or_has_more(blob: bytes) -> None:
    for data in (blob[:-1], blob[:-4], blob[:60], blob + b"\0", blob + bytes(4)):
        assert verdicts(data) == {"damaged: its checksum is another"}
        assert verdicts(sealed(data[16:])) == {"its size is not the one that its header says"}


def test_another_version_is_told_as_such(blob: bytes) -> None:
    assert verdicts(blob[:8] + struct.pack("<I", 2) + blob[12:]) == {"made for another version of mychip"}


def test_whoever_seals_nonsense_is_refused_by_both_or_by_none(blob: bytes) -> None:
    """Change a word or two of the tables at random, with a checksum that holds; what opens computes the same bits."""
    draw, seen = random.Random(0), set()
    tables = len(blob) - 16 - 4 * len(read(blob).constants)
    for _ in range(2000):
        changed = bytearray(blob[16:])
        for _ in range(draw.choice((1, 1, 2))):
            word = draw.choice((0, 1, 2, 3, 5, 6, 12, 144, 400, 1 << 20, (1 << 32) - 1))
            struct.pack_into("<I", changed, draw.randrange(0, tables, 4), word)
        (verdict,) = verdicts(sealed(bytes(changed)))
        seen.add(verdict)
        if not verdict:
            agree(sealed(bytes(changed)))
    assert len(seen) > 8, seen


def agree(data: bytes) -> None:
    """Run a blob on every executor."""
    program = read(data)
    shapes = [(program.tensors[one].rows, program.tensors[one].columns) for one in program.inputs]
    given = [np.random.default_rng(0).standard_normal(shape, np.float32) for shape in shapes]
    first, *others = (open_blob(data).run(given) for open_blob in EXECUTORS.values())
    for other in others:
        for one, same in zip(first, other, strict=True):
            np.testing.assert_array_equal(one, same)
