"""Notebook: a table in place of a record's many lines, and nothing in it that a name could bring to run."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from cross_backend.report import verdicts
from cross_backend.study.runner import Results
from tests.unit.report import studies

HOSTILE = "</td><script>alert(1)</script><img src=x onerror=alert(1)> \"'&"


class Fragment(HTMLParser):
    """The elements, the cells by row, and the text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.rows: list[list[str]] = []
        self.shown = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert {name for name, _ in attrs} <= {"align"}
        if tag == "tr":
            self.rows.append([])

    def handle_data(self, data: str) -> None:
        self.shown += data
        if self.tags[-1] in {"td", "th"} and data.strip():
            self.rows[-1].append(data)


def test_a_panel_is_a_table_with_its_verdict() -> None:
    panel = studies.panel()
    shown = Fragment(panel._repr_html_())
    assert [row[1] for row in shown.rows[1:]] == [result.title for result in panel.ranked]
    assert shown.rows[1][2] == "1" and shown.rows[2][2].startswith("1.2")
    for text in (verdicts.ship(panel), verdicts.lead(panel), verdicts.resolution([panel])):
        assert text in shown.shown
    assert all(f"reason of {o}" in shown.shown for o in studies.FAILURES)


def test_a_study_is_a_table_a_panel() -> None:
    results = studies.study()
    text = results._repr_html_()
    shown = Fragment(text)
    assert shown.tags.count("table") == 6  # the overview, four rankings, and what has no rank
    assert all(verdicts.ship(panel) in shown.shown for panel in results.panels)
    assert Results(results)._repr_html_() == text
    assert "Not finished" in replace(results, finished=False, panels=())._repr_html_()


def test_hostile_names_stay_text() -> None:
    panel = studies.panel()
    rows = tuple(replace(r, title=HOSTILE, reason=HOSTILE) for r in panel.results)
    hostile = replace(panel, workload=HOSTILE, results=rows, interrupted=True)
    for shown in (hostile, studies.study(hostile, name=HOSTILE)):
        assert not {"script", "img"} & set(Fragment(shown._repr_html_()).tags)
