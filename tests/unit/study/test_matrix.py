"""Matrix: the layout is the registry's, the cells are a study's, and the page links each outcome to its reason."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cross_backend.errors import UsageError
from cross_backend.measurement import Measurement
from cross_backend.names.target import Target
from cross_backend.records import TOO_FEW, Outcome, StudyResults
from cross_backend.registry import find_backend, rows
from cross_backend.study.matrix import NAME, Matrix, default_models, layout, markdown, matrix_of, quick_settings
from tests.unit.report.studies import panel

DOCS = Path(__file__).parents[3] / "docs"
HOSTILE = "it needs | a pipe, <b>and</b> [links](http://x) `code`"


@pytest.fixture
def matrix() -> Matrix:
    shown = panel("net")
    first, *others = shown.results
    first = replace(first, measurements=(Measurement("memory.peak_rss", "B", ((5e6,),)),), unranked=TOO_FEW)
    failed = replace(others[0], outcome=Outcome.UNAVAILABLE, reason=HOSTILE, comparison=None, latency_ms=None)
    found = replace(shown, results=(first, failed, *others[1:]))
    return matrix_of(StudyResults(NAME, (found,), found.machine, {}, {}, "2026-01-02T03:04:05+00:00"))


def test_the_layout_is_every_backend_at_every_precision() -> None:
    targets = [Target.parse(text) for text in layout(["linear_regression"]).targets]
    for name, row in rows().items():
        option = find_backend(name).options.get("precision")
        asked = [target.options.get("precision") for target in targets if target.name == name]
        assert asked == ([] if not row.in_all else [None] if option is None else list(option.choices))


def test_what_is_asked_for_is_measured() -> None:
    study = layout(["digits_cnn", "digits_cnn", "linear_regression"], ["iree", "xnnpack?precision=int8"])
    assert study.name == "matrix" and [one.name for one in study.workloads] == ["digits_cnn", "linear_regression"]
    assert study.targets == ("iree", "xnnpack?precision=int8")
    assert study.settings == quick_settings() and study.settings.together == 8 and study.settings.launches == 1
    with pytest.raises(UsageError, match="unknown model"):
        layout(["no_model"])


def test_of_detectors_only_the_smallest_are_measured_where_their_package_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any("yolo" in name for name in default_models()) and "resnet50" in default_models()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert {name for name in default_models() if "yolo" in name} == {"yolov5n", "yolov8n", "yolo11n"}


def test_cells_hold_what_was_found(matrix: Matrix) -> None:
    first, failed = matrix.cells[:2]
    assert (first.model, first.outcome, first.reason) == ("net", "OK", None), "that it is alone is no reason"
    assert first.memory_bytes == 5_000_000 and first.median_ms is not None
    assert (failed.outcome, failed.reason, failed.median_ms) == ("UNAVAILABLE", HOSTILE, None)
    assert matrix.reasons[(matrix.reason_of(failed) or 1) - 1] == ("UNAVAILABLE", HOSTILE)
    assert matrix.of("net")[0].outcome == "OK" and matrix.of("net")[-1].outcome != "OK"


def test_the_document_is_read_back(matrix: Matrix) -> None:
    text = json.dumps(matrix.to_json(), allow_nan=False)
    again = Matrix.from_json(json.loads(text))
    assert again == matrix and markdown(again) == markdown(matrix)
    with pytest.raises(ValueError, match="not a matrix"):
        Matrix.from_json({"schema": 2})


def test_the_page_links_outcomes_to_reasons_and_holds_no_markup_of_others(matrix: Matrix) -> None:
    text = markdown(matrix)
    linked = {int(number) for number in re.findall(r"\]\(#reason-(\d+)\)", text)}
    assert linked == {int(number) for number in re.findall(r"^### Reason (\d+)$", text, re.MULTILINE)} != set()
    assert "&lt;b" in text and r"\[links\]" in text and r"needs \| a pipe" in text
    rows_of_net = [line for line in text.splitlines() if "#reason" in line or line.startswith("| backend")]
    assert len({line.replace("\\|", "").count("|") for line in rows_of_net}) == 1


def test_several_machines_have_a_column(matrix: Matrix) -> None:
    elsewhere = [replace(cell, place="ssh://pi") for cell in matrix.cells]
    both = replace(matrix, cells=(*matrix.cells, *elsewhere), machines={"local": "a", "ssh://pi": "b"})
    assert both.table("net").headers[0] == "machine" and matrix.table("net").headers[0] == "backend"
    assert len(both.table("net").rows) == 2 * len(matrix.table("net").rows)


def test_the_page_of_the_repository_has_no_wrong_output() -> None:
    found = Matrix.from_json(json.loads((DOCS / "matrix.json").read_text()))
    assert found.finished and {cell.outcome for cell in found.cells} <= {
        "OK",
        "UNAVAILABLE",
        "UNSUPPORTED",
        "NOT_PROVED",
    }
    assert all(cell.reason for cell in found.cells if cell.outcome != "OK")


def test_every_key_is_documented(matrix: Matrix) -> None:
    section = (DOCS / "json.md").read_text(encoding="utf-8").partition("`matrix --json`")[2].partition("\n\n")[0]
    keys = {*matrix.to_json(), *matrix.to_json()["cells"][0]}
    assert {key for key in keys if f"`{key}`" not in section and f'"{key}"' not in section} == set()
