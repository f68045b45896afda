"""HTML: a study as one page that needs no network, no script to be read, and holds its raw samples."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend._version import __version__
from cross_backend.foreign_text import plain
from cross_backend.records import Panel, StudyResults
from cross_backend.report import outcomes, raw, study_tables, verdicts
from cross_backend.report.charts.svg import hatches, key
from cross_backend.report.files import replace_file
from cross_backend.report.looks import Look
from cross_backend.report.low_precision import agreements, not_faster
from cross_backend.report.sections import sections
from cross_backend.report.tables import NONE
from cross_backend.report.views import View, looks_of, views

if TYPE_CHECKING:
    from jinja2 import Environment

DOCUMENTATION = "https://github.com/cross-backend/cross-backend/tree/main/docs"
"""Where the pages lie that a report names; nothing is asked of them until somebody follows the link."""
SCRIPTS = ("report.js", "columns.js")
"""What the page's script is made of; the server's pages have the second, too."""
DECIDES = ("rank", "backend", "ratio", "median", "max error", "SQNR dB", "size")
"""Columns of a ranking that decide, with the task metrics beside the median; the others stand in each row's details."""


def write(results: StudyResults, path: Path) -> None:
    """Write the page; what was at that path is replaced only by a finished page.

    Raises:
        ReportError: it cannot be written there.
    """
    from markupsafe import Markup

    parts = study_parts(results)
    style, script = template_text("report.css"), "\n".join(map(template_text, SCRIPTS))
    template = surroundings(template_text).get_template("report.html.template")
    page: Any = template.stream(
        **parts,
        style=Markup(style),  # noqa: S704  ours, without a name of anybody's
        script=Markup(script),  # noqa: S704
        policy=_policy(style, script),
        documentation=DOCUMENTATION,
        meanings=outcomes.MEANINGS,
        index=Markup(raw.index(parts["views"])),  # noqa: S704  escaped as a script element needs it
        blocks=raw.blocks(parts["views"]),
    )
    page.enable_buffering(20)
    replace_file(path, page)


def study_parts(results: StudyResults) -> dict[str, Any]:
    """Return what the chapters of a study show (``study.html.template``), by the names that they have there."""
    shown = views(results)
    looks, chapters = looks_of(shown), sections(results, shown)
    return {
        "results": results,
        "views": shown,
        "version": __version__,
        "verdicts": [(view, *_verdict(view.panel)) for view in shown],
        "resolution": verdicts.resolution(results.panels),
        "overview": study_tables.overview(shown),
        "stopped": study_tables.stopped(shown),
        "rankings": [
            (view, _ranking(view, looks), _without_figures(view), verdicts.disturbed(view.panel)) for view in shown
        ],
        "sections": [section for section in chapters if section.shown],
        "empty": [section for section in chapters if not section.shown],
        "hatches": hatches(),
    }


def _verdict(panel: Panel) -> tuple[str, str]:
    """Return the advice, and what stands below it in small letters."""
    advice, *further = verdicts.parts(panel)
    return advice, " ".join(filter(None, (*further, verdicts.lead(panel), *agreements(panel), *not_faster(panel))))


def _policy(style: str, script: str) -> str:
    """Return the content security policy: our style, our script, nothing else, and no network."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _ranking(view: View, looks: Mapping[str, Look]) -> list[dict[str, Any]]:
    """Return the rows of a panel's table: the cells that decide, the details, and the note below them."""
    whole = study_tables.ranking(view)
    note, interval = whole.headers.index("note"), whole.headers.index("95 % interval")
    tasks = whole.headers[len(study_tables.RANKING) : note]
    decides = [whole.headers.index(header) for header in (*DECIDES[:4], *tasks, *DECIDES[4:])]
    table = whole.only(decides).filled
    more = whole.only([i for i in range(note) if i != interval and i not in decides]).filled
    rows = zip((row for row in view.rows if row.has_figures), table.rows, more.rows, whole.rows, strict=True)
    return [
        {
            "key": key(looks[row.result.title]),
            "cells": [
                _cell(header, f"{text} {texts[interval]}" if header == "median" else text, index in table.numeric)
                for index, (header, text) in enumerate(zip(table.headers, cells, strict=True))
            ],
            "details": [(name, text) for name, text in zip(more.headers, further, strict=True) if text != NONE],
            "note": texts[note].removeprefix(f"{row.result.outcome}: "),
            "outcome": str(row.result.outcome),
            "tie": sum(other.result.rank == row.result.rank for other in view.rows) > 1,
            "ranked": row.result.rank is not None,
        }
        for row, cells, further, texts in rows
    ]


def _cell(header: str, text: str, is_number: bool) -> dict[str, str]:
    """Return the figure of a cell and its interval, which stands below it in small print."""
    figure, mark, rest = text.partition(" [")
    kind = "needs" if text.startswith("needs") else "n" if is_number else ""
    return {"header": header, "figure": figure.removesuffix(f" {NONE}"), "small": mark.strip() + rest, "kind": kind}


def _without_figures(view: View) -> list[tuple[str, str]]:
    """Return (outcome, targets) of what the panel's table leaves out; their reasons stand once in the summary."""
    found: dict[str, list[str]] = {}
    for row in view.rows:
        if not row.has_figures:
            found.setdefault(str(row.result.outcome), []).append(row.result.title)
    return [(outcome, ", ".join(titles)) for outcome, titles in found.items()]


def surroundings(load: Callable[[str], str]) -> Environment:
    """Return what templates are filled in, read by name: what is not markup of ours is escaped, and plain text."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(load),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,  # markup is ours, and clean
        trim_blocks=True,
        lstrip_blocks=True,
    )


def template_text(name: str) -> str:
    """Return one of the files of ``templates/``."""
    return (resources.files(__name__.rpartition(".")[0]) / "templates" / name).read_text(encoding="utf-8")
