"""Markdown: a study as a text for pull requests, issues and pages; the same rows as in terminal and HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from cross_backend.foreign_text import plain
from cross_backend.instruments.table import tables as instrument_tables
from cross_backend.records import StudyResults
from cross_backend.report import circumstances, machines, study_tables, verdicts
from cross_backend.report.tables import Table
from cross_backend.report.views import View, views

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&@])")
"""What could begin markup, a link, HTML, a new cell or the notification of somebody."""


def text(results: StudyResults) -> str:
    """Return the study: verdicts, rankings, what has no rank, instruments, placement, circumstances, warnings."""
    shown = views(results)
    lines = [f"# {escaped(results.name)}", "", "<!-- cross-backend study -->", ""]  # marks it as ours
    lines += _verdicts(shown)
    if found := verdicts.resolution(results.panels):
        lines += [escaped(found), ""]
    if not results.finished:
        lines += ["**Not finished: this is what was measured until now.**", ""]
    lines += [f"Begun {escaped(results.started)}.", ""]
    if len(results.places) > 1:
        lines += [*(f"- {escaped(text)}" for text in machines.changes(results.panels, "machine")), ""]
    if not shown:
        lines += ["No panel was begun, so there is nothing to compare.", ""]
    for table in tables(results, shown):
        lines += section(table)
    return "\n".join(lines)


def _verdicts(shown: Sequence[View]) -> list[str]:
    """Return what to ship, panel by panel."""
    if len(shown) == 1:
        lead = verdicts.lead(shown[0].panel)
        return [f"**{escaped(verdicts.ship(shown[0].panel))}**", *(["", escaped(lead)] if lead else []), ""]
    found = [
        f"- **{escaped(view.label)}**: {escaped(f'{verdicts.ship(view.panel)} {verdicts.lead(view.panel)}')}"
        for view in shown
    ]
    return [*found, ""] if found else []


def tables(results: StudyResults, shown: Sequence[View]) -> list[Table]:
    """Return all tables of a study in the order in which they are read; those without rows are left out."""
    found = [
        study_tables.overview(shown),
        *((machines.by_machine(results.panels), machines.machines(results)) if len(results.places) > 1 else ()),
        *(_named("Ranking", study_tables.ranking(view).filled, view) for view in shown),
        study_tables.stopped(shown),
        *(study_tables.instrument(shown, metrics) for metrics in instrument_tables()),
        *(_named("Placement", study_tables.placement(view), view) for view in shown),
        circumstances.warnings(shown),
        circumstances.machine(results),
        circumstances.versions(results),
        circumstances.settings(results),
    ]
    return [table for table in found if table is not None and table.rows]


def _named(title: str, table: Table, view: View) -> Table:
    return replace(table, title=f"{title}: {view.label}")


def section(table: Table) -> list[str]:
    """Return a table under its title, line by line."""
    marks = ["---:" if index in table.numeric else "---" for index in range(len(table.headers))]
    rows = (table.headers, *table.rows)
    lines = ["| " + " | ".join(escaped(cell) for cell in row) + " |" for row in rows]
    return [f"## {escaped(table.title)}", "", lines[0], "| " + " | ".join(marks) + " |", *lines[1:], ""]


def escaped(text: str) -> str:
    """Return a text on one line that Markdown and HTML show as it is."""
    return (
        _SPECIAL.sub(r"\\\1", " ".join(plain(text).split()))
        .replace("\\<", "&lt;")
        .replace("\\&", "&amp;")
        .replace("\\@", "@\u2060")
    )
