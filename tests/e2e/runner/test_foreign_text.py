"""What others wrote is shown, and no terminal obeys it."""

import json
import unicodedata

from tests.e2e.runner.bundles import PORTABLE, QUICK, VULKAN, XNNPACK, artifact, edit, probe

HOSTILE = "\x1b[2J\x1b]0;mine\x07\x9b31m\r\nline\u202e\u2028\x7f\u200b"
SHOWN = r"\x1b[2J\x1b]0;mine\x07\x9b31m  line\u202e \x7f\u200b"


def plain(letter):
    """Give what the Python package shows of a letter."""
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else letter.encode("unicode_escape").decode()


def printable(built, texts):
    found = probe(built, {"printable": [list(text) for text in texts]})
    return [bytes(text).decode() for text in found]


def test_every_character_is_shown_as_the_python_package_shows_it(built):
    unseen = {"Cc", "Cf", "Co", "Zl", "Zp", "Zs"}
    letters = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in unseen]
    letters = [*letters[:300], *letters[300::997], *letters[-3:], *"aé日🥇\u0301\\\"'", "\U0010fffd"]
    shown = printable(built, [f"<{letter}>".encode() for letter in letters])
    assert shown == [f"<{plain(letter)}>" for letter in letters]


def test_bytes_that_are_no_text(built):
    """Among them what a decoder that is too friendly takes for an escape or a slash, and a surrogate."""
    given = {
        b"\x9b2J": r"\x9b2J",
        b"a\xff\xfe": r"a\xff\xfe",
        b"\xc0\x9b": r"\xc0\x9b",
        b"\xe0\x80\x9b": r"\xe0\x80\x9b",
        b"\xf0\x80\x80\x9b": r"\xf0\x80\x80\x9b",
        b"\xf4\x90\x80\x80": r"\xf4\x90\x80\x80",
        b"\xed\xa0\x80": r"\ud800",
        b"\xe6\x97": r"\xe6\x97",
        b"x \n": "x",
        b"": "",
    }
    assert printable(built, given) == list(given.values())


def test_an_endless_text_is_cut(built):
    (shown,) = printable(built, ["日".encode() * 10**5])
    assert shown.strip("日") == "…"
    assert len(shown) < 200


def poisoned(row):
    """Put it wherever a manifest may say what it likes."""
    artifact(row, PORTABLE)["title"] = HOSTILE
    artifact(row, XNNPACK)["placement"]["delegates"] = {HOSTILE: 1}
    artifact(row, VULKAN)["placement"]["delegates"] = {HOSTILE: 1}
    row["orders"][HOSTILE] = [PORTABLE]


def test_report_and_document(bundle, runner, rows, refused):
    edit(bundle, poisoned)
    result = runner(bundle, *QUICK)
    assert result.returncode == 0, result.stderr
    assert all(line.isprintable() for line in result.stdout.split("\n"))
    assert result.stdout.count(SHOWN) >= 4
    assert f"[ok] {SHOWN}: " in result.stdout
    assert f"does not hold {SHOWN}" in result.stdout
    found = rows(bundle, *QUICK)
    assert found[PORTABLE]["title"] == SHOWN
    assert SHOWN in found[XNNPACK]["reason"]
    assert list(rows(bundle, *QUICK, "--platform", HOSTILE)) == [PORTABLE]
    assert SHOWN in refused(bundle, "--platform", "toaster")


def test_complaints(bundle, refused):
    edit(bundle, lambda row: row["orders"].update({HOSTILE: 3}))
    assert f"orders.{SHOWN} is not a list" in refused(bundle)
    (bundle / "manifest.json").write_bytes(json.dumps({"format": HOSTILE}).encode().replace(b"\\u001b", b"\x1b"))
    assert refused(bundle).strip().isprintable()
    assert refused(bundle / HOSTILE.replace("\n", "")).strip().isprintable()
