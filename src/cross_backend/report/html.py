"""HTML: a study as one page that needs no network, no script to be read, and holds its raw samples."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend._version import __version__
from cross_backend.foreign_text import plain
from cross_backend.records import StudyResults
from cross_backend.report import raw, study_tables
from cross_backend.report.charts.svg import hatches
from cross_backend.report.files import replace_file
from cross_backend.report.sections import sections
from cross_backend.report.tables import Table
from cross_backend.report.views import View, views

if TYPE_CHECKING:
    from jinja2 import Template


def write(results: StudyResults, path: Path) -> None:
    """Write the page; what was at that path is replaced only by a finished page.

    Raises:
        ReportError: it cannot be written there.
    """
    from markupsafe import Markup

    shown = views(results)
    style, script = _template_text("report.css"), _template_text("report.js")
    page: Any = _template().stream(
        results=results,
        views=shown,
        version=__version__,
        style=Markup(style),  # noqa: S704  ours, without a name of anybody's
        script=Markup(script),  # noqa: S704
        policy=_policy(style, script),
        doubt=study_tables.doubt(shown),
        overview=study_tables.overview(shown),
        stopped=study_tables.stopped(shown),
        rankings=[(view, _ranking(view)) for view in shown],
        sections=sections(results, shown),
        hatches=hatches(),
        index=Markup(raw.index(shown)),  # noqa: S704  escaped as a script element needs it
        blocks=raw.blocks(shown),
    )
    page.enable_buffering(20)
    replace_file(path, page)


def _policy(style: str, script: str) -> str:
    """Give the content security policy: our style, our script, nothing else, and no network."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _ranking(view: View) -> list[dict[str, Any]]:
    """Give the rows of a panel's table: cells by header, and whether a row is only its reason."""
    tasks = study_tables.metrics([view])
    headers = (*study_tables.RANKING, *tasks, "note")
    return [
        {
            "cells": dict(zip(headers, study_tables.cells(row, tasks), strict=True)),
            "outcome": str(row.result.outcome),
            "tie": sum(other.result.rank == row.result.rank for other in view.rows) > 1,
            "ranked": row.result.rank is not None,
            "figures": row.distribution is not None or row.result.comparison is not None,
            "tasks": tasks,
        }
        for row in view.rows
    ]


def _template() -> Template:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    surroundings = Environment(
        loader=FunctionLoader(_template_text),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,  # markup is ours, and clean
        trim_blocks=True,
        lstrip_blocks=True,
    )
    surroundings.filters |= {"columns": columns, "floor": study_tables.floor, "difference": study_tables.difference}
    return surroundings.get_template("report.html.template")


def columns(table: Table) -> Sequence[int]:
    """Give the columns that hold something; a column of dashes alone tells nothing."""
    return [i for i in range(len(table.headers)) if any(row[i] not in {"", study_tables.NONE} for row in table.rows)]


def _template_text(name: str) -> str:
    return (resources.files(__name__.rpartition(".")[0]) / "templates" / name).read_text(encoding="utf-8")
