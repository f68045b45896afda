"""Reports: the ending says the kind; a file is whole or not there."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.errors import ArtifactError, ReportError, UsageError
from cross_backend.study.reports import check_places, named_places, write_report
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


@pytest.mark.parametrize("name", ["r.html", "r.md", "r.json"])
def test_a_study_file_may_name_a_place_in_its_folder_and_its_own_reports_again(name: str, tmp_path: Path) -> None:
    for text in (name, f"reports/{name}", str(tmp_path / name), f"reports/../{name}"):
        (place,) = named_places([text], tmp_path)
        write_report(RESULTS, place)
        assert named_places([text], tmp_path) == [place], "what we wrote is written over"


@pytest.mark.parametrize("text", ["../r.md", "/r.md", "reports/../../r.md", "link/r.md", "link.md"])
def test_a_study_file_names_no_place_elsewhere(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    (folder / "link.md").symlink_to(tmp_path / "r.md")
    with pytest.raises(UsageError, match=r"not in the folder .*study; name it with --output\.") as refused:
        named_places([text], folder)
    assert repr(text) in str(refused.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["study"]


@pytest.mark.parametrize("name", ["notes.md", "page.html", "package.json"])
def test_a_study_file_writes_over_nothing_that_we_did_not_write(name: str, tmp_path: Path) -> None:
    for content in ("", "the user's own\n", "# cross-backend study\n", '{"schema": 1}', "\0" * 5000):
        (tmp_path / name).write_text(content)
        with pytest.raises(UsageError, match=r"is no report of cross-backend, so it is left alone; .* --output "):
            named_places([name], tmp_path)
        assert (tmp_path / name).read_text() == content
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(ArtifactError, match="is a pipe, not a file"):
        named_places([name], tmp_path)


def test_a_link_in_the_place_of_a_half_written_report_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / f".r.md.{os.getpid()}.part").symlink_to(tmp_path / "mine")
    write_report(RESULTS, tmp_path / "r.md")
    assert (tmp_path / "mine").read_text() == "precious"
