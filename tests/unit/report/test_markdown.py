"""Markdown and JSON: the same rows as the page, in other clothes."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from markdown_it import MarkdownIt

from cross_backend import records
from cross_backend.records import Comparison, Outcome
from cross_backend.report import markdown, study_tables, verdicts
from cross_backend.report.document import document
from cross_backend.report.views import views
from tests.unit.report import studies

HOSTILE = "a|b `c` <img src=x onerror=alert(1)> [x](http://e.vil) **d** @team #1 ~~e~~\nnext \\"


def cells(text: str) -> list[list[str]]:
    """Read the cells of all tables with a parser of the language that the text is written in."""
    rows: list[list[str]] = []
    inside = False
    for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text):
        inside = token.type == "tr_open" or (inside and token.type != "tr_close")
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and inside and token.children is not None:
            assert {child.type for child in token.children} <= {"text", "text_special"}, token.content
            rows[-1].append("".join(child.content for child in token.children))
    return rows


def test_its_rows_are_those_of_the_tables() -> None:
    results = studies.study()
    text = markdown.text(results)
    found = cells(text)
    shown = views(results)
    for table in (*map(study_tables.ranking, shown), study_tables.overview(shown), study_tables.stopped(shown)):
        for row in (table.filled.headers, *table.filled.rows):
            assert list(row) in found
    assert text.startswith("# quick test\n")
    assert all(f"reason of {outcome}" in text.replace("\\", "") for outcome in studies.FAILURES)


def test_the_verdict_comes_first_and_each_reason_once() -> None:
    panel = studies.panel()
    one = markdown.text(studies.study(panel)).replace("\\", "")
    lines = [verdicts.ship(panel), verdicts.lead(panel), verdicts.resolution([panel]), "| rank | backend |"]
    places = [one.index(line) for line in lines]
    assert places == sorted(places) and places[0] < 120
    many = markdown.text(studies.study()).replace("\\", "")
    for found in studies.study().panels:
        assert verdicts.ship(found) in many and verdicts.lead(found) in many
    assert many.count("reason of UNAVAILABLE") == 1


def test_hostile_names_stay_in_their_cells() -> None:
    panel = studies.panel(targets=1)
    rows = tuple(replace(r, title=HOSTILE, reason=HOSTILE) for r in panel.results)
    results = studies.study(replace(panel, workload=HOSTILE, results=rows), name=HOSTILE)
    shown = {cell.replace("\u2060", "") for row in cells(markdown.text(results)) for cell in row}
    assert " ".join(HOSTILE.split()) in shown
    assert "<img" not in markdown.text(results) and "@team" not in markdown.text(results)


def test_an_empty_study_says_so() -> None:
    text = markdown.text(replace(studies.study(), panels=(), finished=False))
    assert "No panel was begun" in text and "Not finished" in text and "AMD EPYC" in text


def test_the_document_extends_that_of_a_comparison() -> None:
    results = studies.study()
    found = json.loads(json.dumps(document(results), allow_nan=False))
    plain = records.document(results.panels, results.machine)
    assert found["schema"] == records.SCHEMA and set(plain) <= set(found)
    assert (found["study"], found["finished"], found["settings"]["margin"]) == ("quick test", True, 0.01)
    assert found["versions"]["torch"] == "2.13.0"
    assert [(p["workload"], p["batch"], p["threads"]) for p in found["panels"]] == [
        (p.workload, p.batch, 1) for p in results.panels
    ]
    made = [r for p in results.panels for r in p.results]
    for row, base, result in zip(found["results"], plain["results"], made, strict=True):
        assert {key: row[key] for key in base} == json.loads(json.dumps(base))
        assert row["title"] == result.title
        assert (row["percentiles_ms"] is None) == (result.outcome is not Outcome.OK)
    percents = {row["percent"]: row for row in found["results"][0]["percentiles_ms"]}
    assert percents[50.0]["value"] == found["results"][0]["latency_ms"]["median"]
    assert percents[99.9]["value"] is None and percents[99.9]["needs"] >= 4603


def test_the_document_has_no_percentile_without_proof() -> None:
    wrong = Comparison(math.nan, math.nan, math.nan, math.nan, 1e-4, verdict=False, reason="shape")
    panel = studies.panel(targets=1)
    changed = replace(panel.results[0], comparison=wrong)
    (row,) = document(studies.study(replace(panel, results=(changed,))))["results"]
    assert row["percentiles_ms"] is None
