"""Reports: the ending says the kind; a file is whole or not there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.errors import ReportError, UsageError
from cross_backend.study.reports import check_places, write_report
from tests.unit.conftest import room
from tests.unit.report.studies import panel, study

RESULTS = study(panel(targets=2))


@pytest.mark.parametrize(
    ("name", "begins"),
    [("r.html", "<!doctype html"), ("R.HTML", "<!doctype html"), ("r.md", "# quick test"), ("r.json", "{")],
)
def test_the_ending_says_the_kind(name: str, begins: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / name
    assert write_report(RESULTS, path) == path
    assert path.read_text().lower().startswith(begins)
    assert list(path.parent.iterdir()) == [path], "nothing is left beside it"


def test_the_document_is_json(tmp_path: Path) -> None:
    found = json.loads(write_report(RESULTS, tmp_path / "r.json").read_text())
    assert found["study"] == "quick test" and len(found["results"]) == len(RESULTS.panels[0].results)


def test_wrong_places_are_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ending of r.pdf: '.pdf'. Choices: .html, .json, .md"):
        check_places([tmp_path / "r.html", tmp_path / "r.pdf"])
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"cannot write to .*file"):
        check_places([tmp_path / "file" / "r.html"])
    (tmp_path / "r.md").mkdir()
    with pytest.raises(UsageError, match=r"cannot write to .*r.md: it is a folder"):
        check_places([tmp_path / "r.md"])


def test_a_report_that_cannot_be_written_whole_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    path.write_text("old")
    with pytest.raises(ReportError, match=r"r\.md: File too large"), room(100):
        write_report(RESULTS, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path], "nothing half written stays"


@pytest.mark.parametrize("name", ["r.md", "r.json", "r.html"])
def test_a_name_that_is_no_text_is_shown_all_the_same(name: str, tmp_path: Path) -> None:
    """A file name that is not UTF-8 comes with surrogates."""
    path = write_report(replace(RESULTS, name="study \udcff"), tmp_path / name)
    assert "study " in path.read_text(encoding="utf-8")
