"""Benchmarks: run the scripts of benchmarks/, and write the tables that they print into the pages of docs/benchmarks.

A table of a page stands between ``<!-- table NAME: benchmarks/SCRIPT.py ARGUMENTS -->`` and ``<!-- end -->``; a script
names it with ``show(…, name="NAME")``. ``python docs/bench.py [SCRIPT …]`` runs each script with the arguments of its
tables, or without any where no page shows one. Tables that it prints are replaced, also where it ends by saying that a
claim does not hold; the rest of a page stays.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLES = "CROSS_BACKEND_TABLES"
"""Environment variable that ``benchmarks/_table.py`` reads: the folder that takes named tables."""
FORM, END = "<!-- table NAME: benchmarks/SCRIPT.py ARGUMENTS -->", "<!-- end -->"
_MARK = re.compile(r"<!-- table (?P<name>[\w-]+): (?P<command>benchmarks/[a-z]\w*\.py(?: [^<>]+)?) -->")


@dataclass(frozen=True)
class Block:
    """A table of a page."""

    page: Path
    line: int
    """Of its first mark, from 1."""
    end: int
    """Line of its last mark."""
    name: str
    command: tuple[str, ...]
    """Script, from the repository's root, and its arguments."""

    @property
    def place(self) -> str:
        """Where it stands, as an editor opens it."""
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def read(page: Path) -> tuple[list[Block], list[str]]:
    """Return the tables of a page, and what is wrong with its marks."""
    found: list[Block] = []
    wrong: list[str] = []
    name = page.relative_to(ROOT).as_posix()
    begun: tuple[int, re.Match[str]] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        text = line.strip()
        if text.startswith("<!-- table"):
            if begun is not None:
                wrong.append(f"{name}:{begun[0]}: table {begun[1]['name']} has no end; write {END} below it.")
            mark = _MARK.fullmatch(text)
            if mark is None:
                wrong.append(f"{name}:{number}: {text} is no mark of a table; write {FORM}.")
            begun = None if mark is None else (number, mark)
        elif text == END and begun is not None:
            found.append(Block(page, begun[0], number, begun[1]["name"], tuple(begun[1]["command"].split())))
            begun = None
        elif text == END and not wrong:
            wrong.append(f"{name}:{number}: {END} ends no table; write {FORM} above the table.")
    if begun is not None:
        wrong.append(f"{name}:{begun[0]}: table {begun[1]['name']} has no end; write {END} below it.")
    return found, wrong


def every() -> tuple[list[Block], list[str]]:
    """Return the tables of all pages, and what is wrong with them: marks, names, scripts."""
    blocks: list[Block] = []
    wrong: list[str] = []
    for page in sorted((ROOT / "docs" / "benchmarks").glob("*.md")):
        found, mistaken = read(page)
        blocks += found
        wrong += mistaken
    first: dict[str, Block] = {}
    for block in blocks:
        script = ROOT / block.command[0]
        if (other := first.setdefault(block.name, block)) is not block:
            wrong.append(f"{block.place}: {other.place} has a table {block.name}, too; rename one.")
        elif not script.is_file():
            wrong.append(f"{block.place}: {block.command[0]} does not exist; name a script of benchmarks/.")
        elif not any(re.fullmatch(pattern, block.name) for pattern in names(script)):
            wrong.append(f'{block.place}: {block.command[0]} has no show(…, name="{block.name}"); name a table of it.')
    return blocks, wrong


def names(script: Path) -> list[str]:
    """Return patterns of the names that a script's source has for its tables."""
    calls = [node for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    shown = [one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "show"]
    values = [keyword.value for one in shown for keyword in one.keywords if keyword.arg == "name"]
    parts = [value.values if isinstance(value, ast.JoinedStr) else [value] for value in values]
    return [
        "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"[\w-]*" for part in one)
        for one in parts
    ]


def mistakes() -> list[str]:
    """Return what is wrong with the tables of the pages."""
    return every()[1]


def commands(asked: Iterable[str], blocks: Sequence[Block]) -> list[tuple[str, ...]]:
    """Return what is run: each script that is asked for, all where none is, once for each arguments of its tables."""
    scripts = {path.stem: f"benchmarks/{path.name}" for path in sorted((ROOT / "benchmarks").glob("[a-z]*.py"))}
    wanted = {Path(one).stem for one in asked} or set(scripts)
    if unknown := sorted(wanted - set(scripts)):
        sys.exit(f"benchmarks/ has no script {unknown[0]}. It has: {', '.join(scripts)}.")
    found: list[tuple[str, ...]] = []
    for stem, script in scripts.items():
        if stem in wanted:
            found += dict.fromkeys(block.command for block in blocks if block.command[0] == script) or [(script,)]
    return found


def write(page: Path, tables: Mapping[str, str]) -> None:
    """Replace tables of a page, in one step."""
    lines = page.read_text(encoding="utf-8").split("\n")
    for block in reversed(read(page)[0]):
        if block.name in tables:
            lines[block.line : block.end - 1] = ["", *tables[block.name].rstrip().split("\n"), ""]
    fresh = page.with_suffix(".fresh")
    fresh.write_text("\n".join(lines), encoding="utf-8")
    fresh.replace(page)


def run(command: tuple[str, ...], blocks: Sequence[Block]) -> str | None:
    """Run a script and write its tables of the pages; return what failed."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, TABLES: folder}
        status = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, check=False).returncode
        tables = {path.stem: path.read_text(encoding="utf-8") for path in Path(folder).glob("*.md")}
    for page in dict.fromkeys(block.page for block in blocks):
        write(page, tables)
    lacking = [block.name for block in blocks if block.name not in tables]
    faults = [f"exit status {status}"] if status else []
    faults += [f"no table {', '.join(lacking)}; the page keeps the old one"] if lacking else []
    return ", ".join(faults) or None


def main(asked: list[str]) -> None:
    """Run, and fail at the end where a script did."""
    blocks, wrong = every()
    if wrong:
        sys.exit("\n".join(wrong))
    failed = []
    for command in commands(asked, blocks):
        print(f"== {' '.join(command)}", flush=True)
        if reason := run(command, [block for block in blocks if block.command == command]):
            failed.append(f"{' '.join(command)}: {reason}.")
    if failed:
        sys.exit("\n".join(["Failed:", *failed]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
