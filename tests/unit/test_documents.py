"""The documents: each of their commands is understood, and their Python runs as it is written."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch
import yaml

import cross_backend as xb
from atalla import cli as atalla_cli
from cross_backend import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(?P<kind>\w*)[^\n]*\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^ {4}[^\n]*\n)+", re.MULTILINE)
INLINE = re.compile(r"`((?:cross-backend|atalla) [^`\n]+)`")
COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(cross-backend|atalla) (\S.*)$")


PART = re.compile(r"the following arguments are required|expected (one|at least one) argument")
"""What may be wrong with a command that a sentence names."""


def typed(page: str) -> Iterator[str]:
    """Yield the lines of blocks of code; of a session only what is typed."""
    for block in FENCED.finditer(page):
        lines = block["text"].replace("\\\n", " ").splitlines()
        yield from (line[2:] for line in lines if line.startswith("$ ")) if block["kind"] == "console" else lines
    for indented in INDENTED.findall(FENCED.sub("", page)):
        yield from textwrap.dedent(indented).replace("\\\n", " ").splitlines()


def named(page: str) -> list[str]:
    """Return the commands that sentences name."""
    return INLINE.findall(FENCED.sub("", page))


def commands(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the program and the words of each command; a synopsis with brackets is none."""
    for line in lines:
        found = COMMAND.match(line.strip())
        if found is None or "[-" in line:
            continue
        shell = shlex.shlex(found[2].replace("2>&1", ""), posix=True, punctuation_chars="|&;<>")
        shell.whitespace_split = True
        words = list(shell)
        ends = [index for index, word in enumerate(words) if not word.strip("|&;<>")]
        yield found[1], words[: ends[0]] if ends else words


def test_commands_are_found() -> None:
    page = "A\n\n    cross-backend run x --json | jq   # why\n\n```console\n$ atalla new y && ls\natalla new z\n```\n"
    assert list(commands(typed(page))) == [("atalla", ["new", "y"]), ("cross-backend", ["run", "x", "--json"])]
    assert list(commands(named("`atalla run`"))) == [("atalla", ["run"])]
    assert sum(len(list(commands(typed(one.read_text(encoding="utf-8"))))) for one in PAGES) > 80


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_are_understood(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, wrong = page.read_text(encoding="utf-8"), []
    for lines, may_lack in ((typed(text), False), (named(text), True)):
        for program, words in commands(lines):
            try:
                understand(program, words)
            except SystemExit as end:
                said = capsys.readouterr().err
                if end.code and not (may_lack and PART.search(said)):
                    wrong.append(f"{program} {' '.join(words)}: {said}")
    assert wrong == []


def understand(program: str, words: list[str]) -> None:
    if program == "atalla":
        atalla_cli.parser().parse_args(words)
    elif words[0] not in {"--version", "--help", "COMMAND"}:
        cli.parser_of(words[0]).parse_args(words[1:])


def code(page: str, kind: str) -> list[str]:
    """Return the blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [block["text"] for block in FENCED.finditer(text) if block["kind"] == kind]


def run(page: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run the Python of a page, block by block, with these names; return all names."""
    for block in code(page, "python"):
        exec(compile(block, page, "exec"), names)
    return names


@pytest.mark.slow
def test_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    example = torch.ones(1, 4)
    model = torch.nn.Linear(4, 2).eval()
    xb.bundle(xb.capture(model, (example,)), ["cpu"], name="mobilenet_v3_small", output_dir="bundles")
    first, second = code("README.md", "python")
    names: dict[str, Any] = {"model": model, "example": example}
    exec(compile(first, "README.md", "exec"), names)
    torch.testing.assert_close(names["output"], model(example))
    assert "onnxruntime.cpu" in capsys.readouterr().out
    compile(second, "README.md", "exec")  # tests/e2e/test_comparison_runner.py runs it, on a smaller file


def test_sessions_run(capsys: pytest.CaptureFixture[str]) -> None:
    run("docs/sessions.md", {})
    assert capsys.readouterr().out.split("\n")[1:4] == ["tensor([2.])", "tensor([1.])", ""]


def test_own_inputs_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run("docs/inputs.md", {"x": np.ones((1, 2), np.float32), "pixels": np.zeros((1, 4, 4, 3))})
    with np.load("inputs.npz") as found:
        assert sorted(found) == ["input_0", "input_1"]


@pytest.mark.parametrize("page", ["docs/study.md", "docs/cluster.md"])
def test_study_files_fit_the_schema(page: str) -> None:
    schema = yaml.safe_load((ROOT / "docs/reference/study.schema.json").read_text(encoding="utf-8"))
    found = [row for text in code(page, "yaml") if isinstance(row := yaml.safe_load(text), dict)]
    assert found
    for row in found:
        jsonschema.validate({"workloads": ["resnet50"], "targets": ["cpu"], **row}, schema)


def test_each_environment_variable_of_ours_is_on_its_page() -> None:
    named = re.compile(r"\b(?:CROSS_BACKEND|ATALLA)_[A-Z_]+\b")
    page = set(named.findall((ROOT / "docs/reference/environment.md").read_text(encoding="utf-8")))
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    read = {name for text in sources for name in re.findall(rf"\"({named.pattern})\"", text)}
    assert page == read
