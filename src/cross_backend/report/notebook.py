"""Notebook: what a comparison or a study is as a fragment of HTML, without style, script or request."""

from __future__ import annotations

import html

from cross_backend.foreign_text import plain
from cross_backend.records import Panel, StudyResults
from cross_backend.report import outcomes, study_tables, tables, verdicts
from cross_backend.report.tables import Table
from cross_backend.report.views import threads, views


def escape(text: str) -> str:
    """Return a text that no browser takes for more than text."""
    return html.escape(plain(text))


def panel_html(panel: Panel) -> str:
    """Return the verdict, the ranking, the lead, and every reason once."""
    batch = f", batch {panel.batch}" if panel.batch > 1 else ""
    parts = [
        f"<h4>{escape(panel.workload + batch)}, {escape(threads(panel))}</h4>",
        _paragraph(verdicts.ship(panel), "b"),
    ]
    if panel.ranked:
        parts.append(_table(tables.ranking(panel).filled))
    parts += map(
        _paragraph, filter(None, (verdicts.lead(panel), verdicts.resolution([panel]), verdicts.disturbed(panel)))
    )
    parts += [
        _paragraph(f"{outcomes.MARKS[outcome]} {titles}: {outcome}: {why}")
        for outcome, why, titles in outcomes.reasons(panel.results)
    ]
    if panel.interrupted:
        parts.append(_paragraph("Interrupted: this is what was finished until then."))
    return "\n".join(parts)


def study_html(results: StudyResults) -> str:
    """Return the fastest of each panel, the rankings with their verdicts, and every reason once."""
    shown = views(results)
    parts = [f"<h3>{escape(results.name)}</h3>"]
    if found := verdicts.resolution(results.panels):
        parts.append(_paragraph(found))
    if not results.finished:
        parts.append(_paragraph("Not finished: this is what was measured until now.", "b"))
    overview, stopped = study_tables.overview(shown), study_tables.stopped(shown)
    if overview.rows:
        parts.append(_table(overview.filled))
    for view in shown:
        parts += [f"<h4>{escape(view.label)}</h4>", _paragraph(verdicts.ship(view.panel), "b")]
        if view.panel.ranked:
            parts.append(_table(tables.ranking(view.panel).filled))
    if stopped.rows:
        parts.append(f"<h4>{escape(stopped.title)}</h4>{_table(stopped)}")
    return "\n".join(parts)


def _paragraph(text: str, tag: str = "") -> str:
    inner = escape(text)
    return f"<p><{tag}>{inner}</{tag}></p>" if tag else f"<p>{inner}</p>"


def _table(table: Table) -> str:
    """Return a table; the sides of its columns are attributes, because a notebook drops styles it does not trust."""

    def row(cells: tuple[str, ...], tag: str) -> str:
        sides = ("right" if index in table.numeric else "left" for index in range(len(cells)))
        inner = "".join(
            f'<{tag} align="{side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{inner}</tr>"

    body = "".join(row(cells, "td") for cells in table.rows)
    return f"<table><thead>{row(table.headers, 'th')}</thead><tbody>{body}</tbody></table>"
