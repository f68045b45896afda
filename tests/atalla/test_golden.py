"""Golden: blobs of all versions load, list and run as they first did; and what a later version may add."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

import atalla
from atalla.blob.disasm import disassemble
from atalla.blob.reader import section_rows
from atalla.blob.writer import join_sections
from atalla.isa import Verdict
from atalla.isa.format import HEADER, PAGE, SECTION
from tests.atalla import golden
from tests.atalla.test_verify import c, python, signed


@pytest.mark.parametrize("isa", [None, "reference"])
@pytest.mark.parametrize("name", golden.names())
def test_a_blob_runs_as_it_first_did(name: str, isa: str | None) -> None:
    loaded = atalla.load(golden.FOLDER / f"{name}.atalla", isa=isa, verify_constants=True)
    for inputs, wanted in golden.runs(name):
        found = loaded.run(inputs)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(torch.as_tensor(one), other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", golden.names())
def test_a_blob_is_listed_as_it_first_was(name: str) -> None:
    text = (golden.FOLDER / f"{name}.txt").read_text(encoding="utf-8")
    assert list(disassemble((golden.FOLDER / f"{name}.atalla").read_bytes())) == text.splitlines()


def test_all_are_there_and_none_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(golden.NETS) <= set(golden.names())
    before = {path: path.read_bytes() for path in golden.FOLDER.iterdir() if path.is_file()}
    monkeypatch.setitem(golden.NETS, "v1_mlp", golden.NETS["v1_mlp"])
    with pytest.raises(FileExistsError):
        golden.add("v1_mlp")
    assert before == {path: path.read_bytes() for path in golden.FOLDER.iterdir() if path.is_file()}


def test_those_of_a_version_stay_small() -> None:
    sizes = {path: path.stat().st_size for path in golden.FOLDER.iterdir() if path.is_file() and path.suffix != ".py"}
    for version, most in (
        ("v1_1_", 60_000),
        ("v1_2_", 20_000),
        ("v1_3_", 20_000),
        ("v1_4_", 20_000),
        ("v1_5_", 120_000),
        ("v1_6_", 40_000),
        ("v1_7_", 20_000),
    ):
        later = {path for path in sizes if path.name.startswith(version)}
        assert 0 < sum(sizes.pop(path) for path in later) <= most
    assert sum(sizes.values()) <= 100_000


def with_section(data: bytes, name: bytes, content: bytes, required: int) -> bytes:
    """Give the blob with one more section, before the constants."""
    whole: dict[bytes, bytes] = {}
    for known, _, at, size, _, _ in section_rows(data):
        if known == b"CNST":
            whole[name] = content
        whole[known] = data[at : at + size]
    arena, state = struct.unpack_from("<QQ", data, 32)
    made = bytearray(join_sections(whole, arena, state))
    for i, (known, *_) in enumerate(section_rows(made)):
        if known == name:
            struct.pack_into("<I", made, HEADER.size + SECTION.size * i + 4, required)
    return signed(made)


def changed(data: bytes, fields: Mapping[int, bytes]) -> bytes:
    """Give the blob with other bytes at some places of its header."""
    made = bytearray(data)
    for at, value in fields.items():
        made[at : at + len(value)] = value
    return signed(made)


@pytest.fixture(scope="module")
def blob() -> bytes:
    return (golden.FOLDER / "v1_mlp.atalla").read_bytes()


def test_what_a_later_version_may_add(blob: bytes) -> None:
    """A higher minor version; a section that this loader does not know and that need not be known."""
    later = changed(with_section(blob, b"NEWS", b"what this loader does not know", 0), {10: struct.pack("<H", 7)})
    assert python(later) == c(later) == Verdict.SOUND
    for inputs, wanted in golden.runs("v1_mlp"):
        torch.testing.assert_close(atalla.load(later).run(inputs), wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({8: b"\2\0"}, Verdict.VERSION),
        ({8: b"\0\1"}, Verdict.VERSION),
        ({20: b"\1"}, Verdict.VERSION),
        ({23: b"\x80"}, Verdict.VERSION),
        ({12: b"\1\2\3\4"}, Verdict.ENDIAN),
        ({52: b"\1"}, Verdict.HEADER),
    ],
)
def test_what_only_another_loader_knows_is_refused(blob: bytes, fields: Mapping[int, bytes], verdict: Verdict) -> None:
    made = changed(blob, fields)
    assert python(made) == c(made) == verdict


def test_an_unknown_section_that_is_required_is_refused(blob: bytes) -> None:
    made = with_section(blob, b"NEWS", b"what this loader does not know", 1)
    assert python(made) == c(made) == Verdict.SECTION
    made = with_section(blob, b"NEWS", b"", 2)
    assert python(made) == c(made) == Verdict.SECTION


def test_the_layout_of_the_file(blob: bytes) -> None:
    """As ``docs/atalla/blob.md`` says: header, table, sections without gaps but for alignment, constants at a page."""
    rows = section_rows(blob)
    names = [name for name, *_ in rows]
    assert names == [b"STRT", b"OPER", b"TENS", b"INSN", b"ATTR", b"IOTB", b"HOST", b"META", b"CNST"]
    end = HEADER.size + SECTION.size * len(rows)
    for name, required, at, size, align, crc in rows:
        assert at == end + -end % align and align == (PAGE if name == b"CNST" else 8)
        assert required == (name != b"META") and crc == zlib.crc32(blob[at : at + size])
        end = at + size
    assert end == len(blob)
    text = (Path(__file__).parents[2] / "docs" / "atalla" / "blob.md").read_text(encoding="utf-8")
    assert all(f"`{one.decode()}`" in text for one in [*names, b"STAT", b"SYMS"])
    assert all(f"{one.value} | {one.name}" in text for one in Verdict if one), "every verdict is told"
