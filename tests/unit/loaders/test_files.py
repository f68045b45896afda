"""Loaders as they are written: which files, for which platforms, and that every one parses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tree_sitter_dart_orchard
import tree_sitter_kotlin
import tree_sitter_swift
from tree_sitter import Language, Node, Parser

from cross_backend.errors import UsageError
from cross_backend.loaders import LOADERS, write_loaders
from cross_backend.names.platforms import PLATFORMS

GRAMMARS = {".dart": tree_sitter_dart_orchard, ".kt": tree_sitter_kotlin, ".swift": tree_sitter_swift}


@pytest.mark.parametrize(
    ("platforms", "files"),
    [
        (["android"], ["LoadBest.kt", "load_best.dart", "load_best.hpp"]),
        (["ios"], ["LoadBest.swift", "load_best.dart", "load_best.hpp"]),
        (["macos"], ["LoadBest.swift", "load_best.dart", "load_best.hpp", "load_best.py"]),
        (["desktop"], ["load_best.dart", "load_best.hpp", "load_best.py"]),
        (["web"], ["load_best.dart", "load_best.hpp"]),
        (["embedded"], ["load_best.hpp"]),
        (["embedded", "android-qualcomm"], ["LoadBest.kt", "load_best.dart", "load_best.hpp"]),
        ([], ["LoadBest.kt", "LoadBest.swift", "load_best.dart", "load_best.hpp", "load_best.py"]),
    ],
)
def test_each_platform_has_the_loaders_of_its_languages(platforms: list[str], files: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "new" / "loaders"
    assert write_loaders("net", platforms, folder) == files
    assert sorted(path.name for path in folder.iterdir()) == files


def test_the_table_names_platforms_that_exist_and_leaves_none_out() -> None:
    assert {name for platforms in LOADERS.values() for name in platforms} == set(PLATFORMS)


def test_an_unknown_platform_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean 'android'"):
        write_loaders("net", ["web", "androd"], tmp_path / "loaders")
    assert not (tmp_path / "loaders").exists()


@pytest.mark.parametrize("name", ['x"); evil(); ("', "x*/ y", "x\n", "x${y}", "..", "", "x\x1b[2J", "x\\"])
def test_a_name_that_would_be_code_writes_nothing(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot stand in source code"):
        write_loaders(name, [], tmp_path / "loaders")
    assert not (tmp_path / "loaders").exists()


def test_a_loader_names_its_model_is_short_and_knows_nothing_of_this_package(tmp_path: Path) -> None:
    for file in write_loaders("net-2", [], tmp_path):
        text = (tmp_path / file).read_text(encoding="utf-8")
        assert "net-2" in text and "@MODEL@" not in text
        assert text.endswith("\n") and max(map(len, text.splitlines())) <= 120 and len(text.splitlines()) <= 300
        assert "import cross_backend" not in text and "from cross_backend" not in text


def test_writing_needs_nothing_heavy(run_python: Callable[..., str], tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from cross_backend.loaders import write_loaders\n"
        f"write_loaders('net', [], Path({str(tmp_path)!r})); print(sorted({{'torch', 'numpy'}} & set(sys.modules)))"
    )
    assert run_python(script) == "[]\n"


def mistakes(file: str, source: str) -> list[str]:
    """Give what a parser of the file's language does not understand; C++ is compiled, in test_cpp_loader.py."""
    suffix = Path(file).suffix
    if suffix == ".py":
        try:
            compile(source, file, "exec")
        except SyntaxError as error:
            return [f"line {error.lineno}: {error.msg}"]
        return []

    def walk(node: Node) -> Iterator[Node]:
        yield node
        for child in node.children:
            yield from walk(child)

    wrong = [node for node in walk(parsed(suffix, source)) if node.is_error or node.is_missing]
    return [f"line {node.start_point.row + 1}: {node.type}" for node in wrong]


def parsed(suffix: str, source: str) -> Node:
    """Parse a source in the language of its ending; give the root."""
    return Parser(Language(GRAMMARS[suffix].language())).parse(source.encode()).root_node


PARSED = [file for file in LOADERS if not file.endswith(".hpp")]


@pytest.mark.parametrize("file", PARSED)
def test_a_loader_parses(file: str, tmp_path: Path) -> None:
    write_loaders("net", [], tmp_path)
    assert mistakes(file, (tmp_path / file).read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("file", PARSED)
def test_the_parser_finds_missing_brackets(file: str, tmp_path: Path) -> None:
    """All but the few that stand in strings."""
    write_loaders("net", [], tmp_path)
    text = (tmp_path / file).read_text(encoding="utf-8")
    code = [line for line in text.splitlines(keepends=True) if not line.lstrip().startswith(("/", "*", "#"))]
    source = "".join(code)
    brackets = [place for place, letter in enumerate(source) if letter in ")}"]
    assert len(brackets) > 30 and mistakes(file, source) == []
    unnoticed = [place for place in brackets if not mistakes(file, source[:place] + source[place + 1 :])]
    assert len(unnoticed) <= len(brackets) // 20, [source[max(0, p - 40) : p + 1] for p in unnoticed]


def test_a_mistake_has_its_line() -> None:
    assert mistakes("a.dart", "void main() {\n  print('x'\n}\n")[0].startswith("line ")
    assert mistakes("a.kt", "fun main() {\n  val = 3\n}\n") != []
    assert mistakes("a.swift", "func f( {\n}\n") != []
    assert mistakes("a.py", "def f(:\n") == ["line 1: invalid syntax"]
