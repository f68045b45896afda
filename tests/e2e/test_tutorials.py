"""Tutorials: their commands run as they are written, and print what the pages say; numbers may differ."""

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("tutorial", DOCS / "tutorial.py")
tutorial = importlib.util.module_from_spec(SPEC)
sys.modules["tutorial"] = tutorial
SPEC.loader.exec_module(tutorial)
PAGES = sorted(path.stem for path in (DOCS / "tutorials").glob("*.md"))


def test_there_are_tutorials():
    assert len(PAGES) >= 5


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_for_and_shows_what_its_commands_print(name):
    page = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    title, goal, *_ = page.split("\n\n")
    assert title.startswith("# ") and goal.startswith("After this page ")
    commands = [one for block in tutorial.blocks(page) for one in block.commands]
    assert commands
    assert [one.text for one in commands if not one.output and one.into is None] == []


def stop(started):
    """Stop what a page starts in the background and stops at its end, where it did not come so far."""
    for pid in started.read_text().split() if started.exists() else ():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_a_tutorial_prints_what_its_page_says(name, popen, request, tmp_path):
    page = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
    errors = tmp_path / "errors"

    def run(words, folder, variables):
        start = popen if words[:3] == [sys.executable, "-m", "cross_backend"] else subprocess.Popen
        with errors.open("ab") as log:
            process = start(
                words, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=log, text=True, encoding="utf-8"
            )
            try:
                return process.communicate(timeout=300)[0]
            finally:
                process.kill()
                process.wait()

    folder = tmp_path / "reader"
    folder.mkdir()
    request.addfinalizer(lambda: stop(folder / "processes"))
    for block, outputs in tutorial.follow(page, folder, run):
        for command, output in zip(block.commands, outputs, strict=True):
            says, prints = tutorial.words_of(page, command.output), tutorial.words_of(page, output)
            assert prints == says, f"$ {command.text}\n{output}\n{errors.read_text()}"
