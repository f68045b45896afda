"""Tutorials: pages whose commands are run in order, in one folder, and whose output is what the run printed.

A block ``python title="net.py"`` (or yaml, toml, …) is a file. A block ``console`` holds commands after ``$ ``, and
below each what it prints on standard output. ``python docs/tutorial.py NAME…`` runs pages and writes that into them.
Tests run them, too, and compare: numbers and units may differ, words may not. A comment ``<!-- varies: PATTERN -->``
names lines that depend on the noise of the machine.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "tutorials"
WIDTH = 92
"""Characters of a line of output."""
_BLOCK = re.compile(
    r"^```(?P<kind>\w+)(?: title=\"(?P<title>[\w./-]+)\")?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_VARIES = re.compile(r"^<!-- varies: (.+) -->$", re.MULTILINE)
_INTO = re.compile(r" > ([\w.-]+)$")
_MACHINE = re.compile(r"^\* .*(?=, N threads? each)")
_BAR = re.compile(r"█+")
_INTERVAL = re.compile(r"\[[^\[\]]*\d[^\[\]]*\]")
_WARNING = re.compile(r"^ {3}\[warn\] .*\n(?: {5}.*\n)*", re.MULTILINE)
_OF_THE_MACHINE = re.compile(
    r"(steal|load|quota|heat|frequency|memory|swap|too few cores): |Other work disturbed|involuntary context"
)
"""Warnings that a machine with nothing beside the run does not print."""
_NUMBER = re.compile(r"[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?:\s?(?:ns|µs|ms|s|min|B|kB|MB|GB|x|%)(?![\w]))?")
_PYTHON = shlex.quote(sys.executable)
_STARTS = {
    "atalla": f"{_PYTHON} -m atalla",
    "cross-backend": f"{_PYTHON} -m cross_backend",
    "python": _PYTHON,
}
"""Command of a page → what starts it: this interpreter."""
_PROGRAM = re.compile(rf"(?<![\w-])({'|'.join(_STARTS)})(?= )")
Run = Callable[[list[str], Path, Mapping[str, str]], str]
"""Runs a program with its arguments in a folder, with an environment; returns what it printed on standard output."""


@dataclass(frozen=True)
class Command:
    """A command of a page, and what the page says that it prints."""

    text: str
    """As the page has it, without the dollar; lines that end in a backslash go on."""
    output: str

    @property
    def into(self) -> str | None:
        """File that takes its output."""
        match = _INTO.search(self.text)
        return match[1] if match else None

    @property
    def words(self) -> list[str]:
        """The program and its arguments; Bash, where the command needs a shell."""
        text = _INTO.sub("", self.text.replace("\\\n", " "))
        if re.search(r"^\w+=|[|&;<>$]", text):
            return ["bash", "-c", _PROGRAM.sub(_started, text)]
        first, *others = shlex.split(text)
        return [*shlex.split(_STARTS.get(first, shlex.quote(first))), *others]


@dataclass(frozen=True)
class Shown:
    """A block of a page: a file or commands."""

    start: int
    end: int
    """Characters of the page."""
    file: str | None
    text: str
    commands: tuple[Command, ...] = ()


def blocks(page: str) -> Iterator[Shown]:
    """Yield the files and commands of a page in their order."""
    for match in _BLOCK.finditer(page):
        if match["title"]:
            yield Shown(match.start(), match.end(), match["title"], match["text"])
        elif match["kind"] == "console":
            parts = re.split(r"^\$ ", match["text"], flags=re.MULTILINE)[1:]
            yield Shown(match.start("text"), match.end("text"), None, match["text"], tuple(map(_command, parts)))


def _started(match: re.Match[str]) -> str:
    return _STARTS[match[0]]


def _command(part: str) -> Command:
    lines = part.splitlines(keepends=True)
    count = next(index for index, line in enumerate(lines, 1) if not line.endswith("\\\n"))
    return Command("".join(lines[:count]).rstrip("\n"), "".join(lines[count:]))


def follow(page: str, folder: Path, run: Run) -> Iterator[tuple[Shown, list[str]]]:
    """Do what a page says in a folder; yield each block with the outputs of its commands."""
    for block in blocks(page):
        if block.file is not None:
            place = folder / block.file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text, encoding="utf-8")
        yield block, [_printed(one, folder, run) for one in block.commands]


def _printed(command: Command, folder: Path, run: Run) -> str:
    """Run a command; return what a reader sees of it."""
    output = run(command.words, folder, environment(folder))
    if command.into is None:
        return tidied(output)
    (folder / command.into).write_text(output, encoding="utf-8")
    return ""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a page's commands: its own store, lines of one width, no colours, our scripts."""
    kept = {name: value for name, value in os.environ.items() if name not in {"FORCE_COLOR", "NO_COLOR"}}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    own = {"COLUMNS": str(WIDTH), "PYTHONUTF8": "1", "CROSS_BACKEND_DB": str(folder / "studies.sqlite"), "PATH": path}
    return kept | own


def run_here(words: list[str], folder: Path, variables: Mapping[str, str]) -> str:
    """Run a command; ``cross-backend`` and ``python`` are those of this interpreter."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=dict(variables),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        encoding="utf-8",
    )
    return done.stdout


def tidied(output: str) -> str:
    """Return what a page shows of an output: no blanks at the ends of lines, no empty lines around it."""
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    return "".join(f"{line}\n" for line in lines)


def words_of(page: str, output: str) -> set[str]:
    """Return the lines of an output as they are compared.

    Any number is ``N``, and any bar one block; the processor has no name. Lines that vary are left out, and warnings of
    what else the machine did.
    """
    output = _WARNING.sub(_unless_of_the_machine, output)
    varies = [re.compile(pattern) for pattern in _VARIES.findall(page)]
    lines = (line for line in output.splitlines() if not any(pattern.search(line) for pattern in varies))
    plain = (" ".join(_NUMBER.sub("N", _INTERVAL.sub(" ", _BAR.sub("█", line))).split()) for line in lines)
    return {_MACHINE.sub("* CPU", line) for line in plain if line.strip("-= ")}


def _unless_of_the_machine(match: re.Match[str]) -> str:
    return "" if _OF_THE_MACHINE.search(" ".join(match[0].split())) else match[0]


def written(page: str, found: Iterator[tuple[Shown, list[str]]]) -> str:
    """Return a page with the outputs of its commands."""
    parts, last = [], 0
    for block, outputs in found:
        if block.commands:
            text = "".join(f"$ {one.text}\n{out}" for one, out in zip(block.commands, outputs, strict=True))
            parts += [page[last : block.start], text]
            last = block.end
    return "".join([*parts, page[last:]])


def main(names: list[str]) -> None:
    """Run pages, all where none is named, and write what their commands print."""
    for path in [FOLDER / f"{name}.md" for name in names] or sorted(FOLDER.glob("*.md")):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["CROSS_BACKEND_CACHE"] = str(Path(folder) / "cache")  # a reader's is empty
            page = path.read_text(encoding="utf-8")
            path.write_text(written(page, follow(page, Path(folder), run_here)), encoding="utf-8")
        print(f"{path.name}: written")


if __name__ == "__main__":
    main(sys.argv[1:])
