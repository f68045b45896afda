"""Verify: both loaders give the same verdict, whatever happens to a blob; checksums are made right again, so that
what lies behind them is looked at, too.

``ATALLA_MUTATIONS=100000 pytest tests/atalla/test_verify.py`` tries so many of each network.
"""

from __future__ import annotations

import os
import random
import struct
import zlib
from collections.abc import Callable, Sequence

import pytest
import torch

import atalla
from atalla.blob.reader import parse
from atalla.blob.verify import verify
from atalla.isa import Op, Reduce, Verdict
from atalla.isa.format import HEADER, INSTRUCTION, SECTION, TENSOR
from atalla.run.kernels import OpenBlob
from tests.atalla import bf16_programs, int8_programs
from tests.atalla.nets import NETS
from tests.atalla.one_instruction import Given
from tests.atalla.test_compile import compiled

MUTATIONS = int(os.environ.get("ATALLA_MUTATIONS", "200"))
SHORT = (b"STRT", b"OPER", b"TENS", b"INSN", b"ATTR", b"IOTB", b"HOST", b"META")


def python(data: bytes) -> int:
    try:
        verify(data)
    except atalla.BlobError as error:
        return error.code
    return Verdict.SOUND


def c(data: bytes) -> int:
    try:
        OpenBlob(data)
    except atalla.BlobError as error:
        return error.code
    return Verdict.SOUND


def sections(data: bytes | bytearray) -> dict[bytes, tuple[int, int]]:
    """Give where each section is."""
    (count,) = struct.unpack_from("<I", data, 16)
    rows = (SECTION.unpack_from(data, HEADER.size + SECTION.size * i) for i in range(count))
    return {name: (at, size) for name, _, at, size, _, _ in rows}


def signed(data: bytearray) -> bytes:
    """Make checksums right, as far as the table still says where sections are."""
    (count,) = struct.unpack_from("<I", data, 16)
    end = HEADER.size + SECTION.size * count
    if count > 64 or end > len(data):
        return bytes(data)
    for i in range(count):
        place = HEADER.size + SECTION.size * i
        _, _, at, size, _, _ = SECTION.unpack_from(data, place)
        if at + size <= len(data):
            struct.pack_into("<I", data, place + 28, zlib.crc32(data[at : at + size]))
    struct.pack_into("<I", data, 48, 0)
    struct.pack_into("<I", data, 48, zlib.crc32(data[HEADER.size : end], zlib.crc32(data[: HEADER.size])))
    return bytes(data)


def with_word(data: bytes, op: Op, word: int, value: bytes) -> bytes:
    """Give a blob with another attribute in the first instruction of an operation."""
    found, made = sections(data), bytearray(data)
    at, size = found[b"INSN"]
    rows = INSTRUCTION.iter_unpack(data[at : at + size])
    first = next(row[list(INSTRUCTION.fields).index("first_word")] for row in rows if row[0] == op)
    place = found[b"ATTR"][0] + 8 * (first + word)
    made[place : place + 8] = value
    return signed(made)


def mutated(data: bytes, chance: random.Random, short: Sequence[bytes] = SHORT) -> bytes:
    """Change a little of a section, or of the header and the table."""
    made = bytearray(data)
    found = sections(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at, size = (
            found.get(chance.choice(short), (0, 0)) if chance.random() < 0.95 else (0, HEADER.size + 9 * SECTION.size)
        )
        if size < 8:
            continue
        width = chance.choice((1, 2, 4, 8))
        place = at + chance.randrange(0, size - width + 1) // width * width
        old = int.from_bytes(made[place : place + width], "little")
        new = chance.choice(
            (old + 1, old - 1, old ^ 1 << chance.randrange(8 * width), chance.randrange(20), 0, -1, 1 << 8 * width - 2)
        )
        made[place : place + width] = (new & (1 << 8 * width) - 1).to_bytes(width, "little")
    return signed(made)


@pytest.mark.parametrize("name", NETS)
def test_both_loaders_find_what_the_compiler_makes_sound(name: str) -> None:
    data = compiled(name)[0].data
    assert python(data) == c(data) == Verdict.SOUND


@pytest.mark.timeout(300 + MUTATIONS)
@pytest.mark.parametrize("name", NETS)
def test_both_loaders_give_the_same_verdict(name: str) -> None:
    data, chance = compiled(name)[0].data, random.Random(name)
    seen = set()
    for _ in range(MUTATIONS):
        made = mutated(data, chance)
        verdict = python(made)
        assert verdict == c(made)
        seen.add(verdict)
    assert len(seen) > 6, "the mutations reach most checks"


@pytest.mark.timeout(300 + MUTATIONS)
@pytest.mark.parametrize("make", [*int8_programs.MAKERS, *bf16_programs.MAKERS])
def test_both_loaders_give_the_same_verdict_on_narrow_numbers(make: Callable[[int], Given]) -> None:
    chance, seen = random.Random(0), set()
    for seed in range(4):
        data = make(seed)[0]
        assert python(data) == c(data) == Verdict.SOUND
        for _ in range(MUTATIONS // 2):
            made = mutated(data, chance)
            verdict = python(made)
            assert verdict == c(made)
            seen.add(verdict)
    assert len(seen) > 6, "the mutations reach most checks"


class Tail(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[3:] * 2


def test_an_input_has_no_more_bytes_than_its_caller_is_told() -> None:
    """Else a view of it, which is within these bytes, reads beyond what the caller gave."""
    blob = atalla.compile(torch.export.export(Tail(), (torch.zeros(5),))).data
    listing, changed = parse(blob), bytearray(blob)
    first_dim = sections(blob)[b"TENS"][0] + TENSOR.size * listing.inputs[0] + 32
    struct.pack_into("<q", changed, first_dim, 1)
    assert python(signed(changed)) == c(signed(changed)) == Verdict.BOUNDS


def test_of_int8_there_are_sums_alone() -> None:
    data = int8_programs.total(0)[0]
    for kind in Reduce:
        found = with_word(data, Op.REDUCE, 0, struct.pack("<q", kind))
        assert python(found) == c(found) == (Verdict.SOUND if kind is Reduce.SUM else Verdict.OPERANDS), kind
