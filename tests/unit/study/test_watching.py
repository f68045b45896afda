"""Watching: what a log shows of a study, and what it says when it is stopped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cross_backend.cache import Cache
from cross_backend.records import Outcome, PanelKey
from cross_backend.report.terminal import Terminal
from cross_backend.study.spec import StudySettings, StudySpec, WorkloadSpec
from cross_backend.study.watching import watching
from tests.unit.report.studies import panel

STUDY = StudySpec(
    "quick", (WorkloadSpec.find("linear_regression"),), ("null",), (1, 8), settings=StudySettings(instruments=())
)
KEY = PanelKey("linear_regression", 8, 1)


def test_it_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with watching(Terminal(), STUDY, Cache(tmp_path)) as watch:
        watch.begin([0, 1], 1)
        watch.begin([1], 1)
    first, second = capsys.readouterr().err.splitlines()
    assert re.match(r"\* 2 panels to go, [\d.]+( s)? to \d+ (s|min)\. An estimate, from", first)
    assert second.startswith("* 1 of 2 panels are stored already; 1 panel to go, ")


def test_a_log_has_a_line_for_what_is_stored_and_for_every_panel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = panel("linear_regression", 8, targets=3)
    with watching(Terminal(), STUDY, Cache(tmp_path)) as watch:
        watch.begin([0, 1], 1)
        watch.progress(f"{KEY}: measure", 0.5)
        watch.observe("linear_regression", "capture", None)
        watch.stored(KEY, "launch 2")
        watch.panel(found)
    _, stored, ended = capsys.readouterr().err.splitlines()
    assert stored == "linear_regression, batch 8, 1 thread: launch 2: stored"
    right = sum(result.outcome is Outcome.OK for result in found.results)
    assert ended.startswith("[ok] 1/2 linear_regression, batch 8, 1 thread: fastest onnxruntime ")
    assert "OpenVINO" in ended and f"{right} of {len(found.results)} targets verified" in ended


def test_a_stop_says_how_it_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), watching(Terminal(), STUDY, Cache(tmp_path)):
        raise KeyboardInterrupt
    assert "the same command resumes" in capsys.readouterr().err


def test_quiet_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with watching(Terminal(quiet=True), STUDY, Cache(tmp_path)) as watch:
        watch.begin([0], 1)
        watch.progress("measure", 0.5)
        watch.stored(KEY, "launch 1")
        watch.panel(panel(targets=1))
    assert capsys.readouterr() == ("", "")
