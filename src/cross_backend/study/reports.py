"""Reports: a study's results as a file; the ending says which kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cross_backend.errors import UsageError, unknown_name
from cross_backend.records import StudyResults
from cross_backend.report.files import replace_file

ENDINGS = (".html", ".json", ".md")


def check_places(paths: Sequence[Path]) -> None:
    """Refuse endings that are not known, and folders that cannot be made or stand in the way, before any work.

    Raises:
        UsageError: as it says.
    """
    for path in paths:
        if path.suffix.lower() not in ENDINGS:
            raise unknown_name(f"ending of {path.name}:", path.suffix, ENDINGS)
        if path.is_dir():
            raise UsageError(f"cannot write to {path}: it is a folder.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot write to {path.parent}: {error.strerror}.") from error


def write_report(results: StudyResults, path: Path) -> Path:
    """Write one report, whole or not at all.

    Raises:
        UsageError: another ending than .html, .md or .json, or a folder that cannot be made.
        ReportError: it cannot be written.
    """
    check_places([path])
    if path.suffix.lower() == ".html":
        from cross_backend.report import html

        html.write(results, path)
        return path
    if path.suffix.lower() == ".md":
        from cross_backend.report import markdown

        text = markdown.text(results)
    else:
        from cross_backend.report.document import document

        text = json.dumps(document(results), indent=2, allow_nan=False) + "\n"
    replace_file(path, [text])
    return path
