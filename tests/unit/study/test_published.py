"""Published: pages find the progress of what runs, and of nothing that ended, was killed or belongs to others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cross_backend.cache import Cache
from cross_backend.report.progress import Show
from cross_backend.study.published import FOLDER, MOST_NOTES, publishing, running
from cross_backend.study.watch import ClassProgress

KILLED = """
import os, sys
from pathlib import Path
from cross_backend.cache import Cache
from cross_backend.report.progress import Show
from cross_backend.study.published import publishing
with publishing(Cache(Path(sys.argv[1])), "killed", "db", Show()) as show:
    show("study", "1 of 2 panels", 0.5)
    os._exit(1)
"""


def test_what_is_done_now_is_there_and_gone_at_the_end(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cross_backend.study.published.EVERY_S", 0.0)
    with publishing(cache, "fleet", "db", Show()) as show:
        show("a node", "a node: measure", 0.25)
        show("study", "1 of 4 panels, 2 machines", 0.25, "3 min")
        show("x lower", "x: lower", None)
        show("x lower", "x: lower: 2 s", 1)
        for number in range(MOST_NOTES + 2):
            show.note(f"note {number}")
        (found,) = running(cache, "db")
        assert running(cache, "another database") == []
    assert running(cache, "db") == [] and list((cache.root / FOLDER).iterdir()) == []
    assert found.study == "fleet" and len(found.notes) == MOST_NOTES and found.notes[-1] == "note 6"
    assert [(line.key, line.left) for line in found.lines] == [("study", "3 min"), ("a node", "")]


def test_what_was_killed_is_cleared_away_and_what_is_damaged_left_out(cache: Cache) -> None:
    assert subprocess.run([sys.executable, "-c", KILLED, cache.root], check=False).returncode == 1
    (path,) = (cache.root / FOLDER).glob("*.json")
    row = json.loads(path.read_text())
    (path.parent / "1.json").write_text("[")
    (path.parent / "2.json").write_text(json.dumps({**row, "process": "x"}))
    assert running(cache, "db") == [] and not path.exists()


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (ClassProgress("pi", 0, 1, 4, waiting=3), "class pi: 1 of 4 panels, no machine, 3 wait for a machine"),
        (ClassProgress("a", 1, 0, 2, unprepared=2), "class a: 0 of 2 panels, 1 machine, 2 wait for lowering"),
    ],
)
def test_a_class_says_what_its_panels_wait_for(found: ClassProgress, text: str) -> None:
    assert str(found) == text
