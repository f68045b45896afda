"""The architecture page says the words of the code: its vocabulary, its wings, one thing a name, one idea a file."""

from __future__ import annotations

import ast
import re
import sysconfig
import tomllib
from collections import defaultdict
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "cross_backend"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"(?m)^\| \*\*(\w+)\*\*", PAGE))
NO_CLASS = {"Options", "Program", "Round"}
"""Words for what has no class of its own: two are aliases, a round is a row of numbers."""
KNOWN_TO = 8
"""A class that so many modules import is a word of the house."""
MOST_LINES = 400
"""A file of more has two ideas."""
OUTSIDE = {"Terminal", "Table", "View", "ExecuTorchBackend", "OnnxProgram", "Timing", "Execution", "Option"}
"""Classes of one wing, or words that say themselves what they are."""


def classes() -> dict[str, list[Path]]:
    """Return each public class name → the modules that define it."""
    found = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(PACKAGE))
    return found


def importers() -> dict[str, set[Path]]:
    """Return each name → the modules that import it from this package."""
    found = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cross_backend"):
                for alias in node.names:
                    found[alias.name].add(path)
    return found


def test_every_word_is_the_codes() -> None:
    assert classes().keys() >= WORDS - NO_CLASS and not NO_CLASS & classes().keys()


def test_what_many_modules_use_is_a_word() -> None:
    users = importers()
    common = {name for name in classes() if len(users[name]) >= KNOWN_TO and not name.endswith("Error")}
    assert common <= WORDS | OUTSIDE


def test_one_name_is_one_class() -> None:
    """Vendors' names stand in the backends of several runtimes, which do not know each other."""
    several = {name: paths for name, paths in classes().items() if len(paths) > 1}
    assert {name: paths for name, paths in several.items() if not all(p.parts[0] == "backends" for p in paths)} == {}


def test_no_file_is_longer_than_one_idea() -> None:
    files = [path for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): path.read_bytes().count(b"\n") for path in files}
    assert len(files) > 500 and {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def test_the_page_draws_the_layers_that_are_checked() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(
        one["layers"] for one in contracts if one["type"] == "layers" and one["containers"] == ["cross_backend"]
    )
    drawing = PAGE.partition("## Wings")[2].partition("    atalla ")[0]
    drawn = [
        set(re.findall(r"\w+", re.split(r" {2,}", line.strip())[0]))
        for line in drawing.splitlines()
        if line.startswith("    ")
    ]
    assert drawn == [set(re.findall(r"\w+", layer)) for layer in layers]


@pytest.mark.parametrize("path", re.findall(r"`((?:\w+/)+\w+)\b", PAGE))
def test_files_that_the_page_names_are_there(path: str) -> None:
    roots = (PACKAGE, ROOT, PACKAGE / "comparison", ROOT / "src")
    assert any((root / f"{path}.py").is_file() or (root / path).exists() for root in roots)


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_no_benchmark_hides_a_package(path: Path) -> None:
    """A script's own folder comes first where Python looks for modules."""
    folders = [sysconfig.get_path(kind) for kind in ("stdlib", "platlib", "purelib")]  # not what tests put on the path
    assert PathFinder.find_spec(path.stem, [*folders, str(ROOT / "src")]) is None
