"""The prose linter: it reads what people read, and nothing else."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONG = " ".join(["word"] * 26)


@pytest.fixture
def prose(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    yield importlib.import_module("prose")
    sys.modules.pop("prose")


def test_a_banned_phrase_of_a_page_is_found_at_its_line(prose):
    page = "# Title\n\n```text\nit tells\n```\n\n    it gives\n\n`anew` is code.\nIt Tells more.\n"
    assert prose.phrases(list(prose.of_page("a.md", page))) == ["a.md:10: 'Tells' is banned; write: reports, shows."]


@pytest.mark.parametrize(
    "source",
    [
        "raise ValueError(f'{name} gives {value} outputs')",
        "parser.add_argument('--a', help='what the model gives here')",
        "REASON = ('one part gives '\n          'two of three')",
    ],
)
def test_a_banned_phrase_in_a_string_is_found(prose, source):
    assert len(prose.phrases(list(prose.of_code("src/a.py", source)))) == 1


@pytest.mark.parametrize(
    "source", ["'''It gives what it was given.'''", "def f():\n    '''It gives the one.'''", "x = 'gives'"]
)
def test_docstrings_and_single_words_are_no_texts(prose, source):
    assert prose.phrases(list(prose.of_code("src/a.py", source))) == []


@pytest.mark.parametrize(
    ("file", "source", "line"),
    [
        ("src/a.py", "x = 'it gives'\n\ndef f():\n    '''It was told\n    apart by ``what gives``.'''\n", 4),
        ("src/a.py", "x = 1  # ``gives``\n'It gives a text.'\n", 2),
        ("src/a.py", "x = 'gives'\nx = 1  # gives one\n", 2),
        ("src/a.c", 'char *x = "it gives";\n/* One\n * gives two. */\n', 2),
        ("src/a.css", "a { color: red }\n/* Drawn anew. */\n", 2),
    ],
    ids=["docstring", "text of a field", "comment", "C", "CSS"],
)
def test_docstrings_and_comments_are_read_without_their_code(prose, file, source, line):
    (found,) = prose.phrases(list(prose.asides(file, source)))
    assert found.startswith(f"{file}:{line}: ")


def test_the_description_of_a_command_is_read(prose):
    assert len(prose.phrases(list(prose.of_code("src/cross_backend/cli/a.py", "'''Show what it gives you.'''")))) == 1


def test_long_sentences_are_counted(prose):
    source = f"a = '{LONG}.'\nb = 'Four words are short. These are, too.'\nc = '{LONG[:-5]}.'"
    long, count = prose.long_sentences(list(prose.of_code("src/a.py", source)))
    assert (len(long), count) == (1, 4)
    assert long[0].startswith("src/a.py:1: 26 words: word word")


SOURCES = {
    "a.js": "// read it anew\nconst a = 'one';\n\nsay(`${x} is read anew by ${y}`);\nconst b = 'anew';\n",
    "a.cpp": '/* read it anew */\n\n\nfail("the file "\n  "is read anew " + name);\n',
    "a.html": "<script>// it is read anew here</script>\n<style>.anew {}</style>\n\n"
    '<p title="anew">{# anew #}{{ x }} is read anew</p>\n',
}


@pytest.mark.parametrize(("file", "lines"), [("a.js", [4]), ("a.cpp", [4]), ("a.html", [4, 4])])
def test_texts_of_other_languages_are_read_and_no_comments(prose, file, lines):
    (read,) = (way for end, way in prose.READ.items() if file.endswith(end))
    found = prose.phrases(list(read(file, SOURCES[file])))
    assert found == [f"{file}:{line}: 'anew' is banned; write: again." for line in lines]
