"""That texts from outside are made plain: no terminal obeys them, and what is printed is UTF-8."""

import random
import unicodedata

import pytest

from tests.e2e.runner.bundles import probe
from tests.unit.test_foreign_text import HOSTILE


@pytest.fixture(scope="module")
def printable(built):
    return lambda *rows: probe(built, {"printable": [list(row) for row in rows]})


def test_what_is_plain_stays_as_it_is(printable):
    texts = ["", "cpu", "Größe 12 µs – ⚠️ ❌ 模型 🥇", "\U0010ffff"[:0] + "é", "x" * 500]
    assert printable(*(text.encode() for text in texts)) == texts


def test_hostile_texts_show_nothing_but_letters(printable):
    for shown in printable(*(f"a{text}b".encode("utf-8", "surrogatepass") for text in HOSTILE.values())):
        assert shown.startswith("a") and shown.endswith("b") and shown.isprintable()


def test_no_letter_is_obeyed_or_turns_others(printable):
    letters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    obeyed = [c for c in letters if unicodedata.category(c) in {"Cc", "Zl", "Zp"}]
    obeyed += [
        c
        for c in letters
        if unicodedata.bidirectional(c) in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    ]
    assert len(obeyed) > 70
    assert set(printable(*(f"a{c}b".encode() for c in obeyed))) == {"a b"}


def test_bytes_that_are_no_text_show_as_question_marks(printable):
    assert printable(b"a\xffb", b"\xc0\x80", b"\xe2\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xe2\x80\xaea") == [
        "a?b", "??", "??", "???", "????", " a",
    ]  # fmt: skip
    noise = [random.Random(seed).randbytes(300) for seed in range(200)]
    for row, shown in zip(noise, printable(*noise), strict=True):
        assert shown.replace("\ufffd", "").isprintable() or any(
            unicodedata.category(c)[0] == "C" for c in row.decode(errors="replace")
        )
        assert "\x1b" not in shown and "\x9b" not in shown


def test_long_texts_are_cut_between_letters(printable):
    (shown,) = printable(("é" * 1000).encode())
    assert shown.endswith("é…") and len(shown) == 251
