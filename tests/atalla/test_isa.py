"""Instruction set: C's header is the one that Python would write now, and numbers never change."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import atalla
from atalla import isa, library
from atalla.header import header

CSRC = Path(atalla.__file__).parent / "csrc"
WORD = re.compile(r"\b(AT_\w+) = (\d+)")


def test_the_header_says_what_python_says() -> None:
    """Numbers, records, limits and texts of the format are said once: C's are written from Python's."""
    written = (CSRC / "isa.h").read_text()
    assert written == header(), "python -m atalla.header > src/atalla/csrc/isa.h"
    assert len(WORD.findall(written)) > 250


def test_numbers_are_part_of_the_format() -> None:
    """What a blob holds stays readable: a number here may be added, never changed."""
    assert {one.name: one.value for one in isa.Dtype} == {
        "F32": 1, "F64": 2, "F16": 3, "BF16": 4, "I8": 5, "U8": 6, "I16": 7, "I32": 8, "I64": 9, "BOOL": 10,
    }  # fmt: skip
    assert [one.name for one in isa.Op] == [
        "END", "CALL_HOST", "COPY", "FILL", "IOTA", "GATHER", "EW", "GEMM", "BMM", "CONV2D", "CONV2D_WINO", "DWCONV2D",
        "POOL2D", "REDUCE", "SOFTMAX", "NORM", "ATTENTION", "CUMSUM", "RESIZE2D", "SCATTER", "SAMPLE2D", "QGEMM",
        "QCONV2D", "QDWCONV2D", "BGEMM", "BCONV2D",
    ]  # fmt: skip
    assert [one.value for one in isa.Op] == list(range(26))
    assert set(isa.OPS) == set(isa.Op) and all(isa.OPS[one] for one in isa.Op)


@pytest.mark.parametrize("name", ["tensor", "error", "options", "info", "planning"])
def test_structures_are_those_of_the_abi(name: str) -> None:
    text = re.sub(r"/\*.*?\*/", "", (CSRC / "atalla.h").read_text(), flags=re.DOTALL)
    (body,) = re.findall(rf"typedef struct \{{([^{{}}]*)\}} atalla_{name};", text)
    members = [re.findall(r"(\w+)(?:\[\d+\])?$", one)[0] for one in re.split("[,;]", body)[:-1]]
    assert members == [field for field, _ in getattr(library, f"C{name.title()}")._fields_]


def test_numbers_of_the_abi() -> None:
    text = (CSRC / "atalla.h").read_text()
    assert f"#define ATALLA_ABI_VERSION {library.ABI_VERSION}u" in text
    assert f"ATALLA_BAD_SHAPE = {library.BAD_SHAPE}," in text and f"ATALLA_BUSY = {library.BUSY}," in text
    assert f"ATALLA_BAD_INDEX = {library.BAD_INDEX}," in text
    assert f"ATALLA_ZERO_DIVISOR = {library.ZERO_DIVISOR}," in text
