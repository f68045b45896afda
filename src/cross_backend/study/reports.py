"""Reports: a study's results as a file; the ending says which kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cross_backend.errors import UsageError, unknown_name
from cross_backend.foreign_files import open_regular
from cross_backend.records import StudyResults
from cross_backend.report.files import replace_file, writable_folder

_MARKS = {
    ".html": b'<meta name="generator" content="cross-backend ',
    ".json": b'{\n  "made_by": {\n    "cross-backend": ',
    ".md": b"<!-- cross-backend study -->",
}
"""Ending → what distinguishes our reports from other files, near their beginning."""
_MARKED_BYTES = 4096


def named_places(paths: Sequence[str], folder: Path) -> list[Path]:
    """Return where reports go that a study file names: the file may be a stranger's, so nothing of the user's is lost.

    Args:
        paths: as the file names them.
        folder: the file's own, or what the user chose.

    Raises:
        UsageError: one would lie outside the folder, or in the place of a file that is no report of ours.
    """
    places = [confined(text, folder, "--output") for text in paths]
    for place in places:
        if place.exists() and not _is_report(place):
            raise UsageError(
                f"{place} exists and is no report of cross-backend, so it is left alone; "
                f"to write over it all the same, give --output {place}."
            )
    return places


def confined(text: str, folder: Path, option: str) -> Path:
    """Return a path that a study file names, if it lies in a folder; links are followed.

    Raises:
        UsageError: it lies elsewhere; ``option`` is what names any place.
    """
    path = (folder / text).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UsageError(
            f"the study file names {text!r}, which is not in the folder {folder.resolve()}; name it with {option}."
        )
    return path


def _is_report(path: Path) -> bool:
    if path.is_dir():
        return True  # told by what checks all places
    with open_regular(path) as file:
        return _MARKS[path.suffix.lower()] in file.read(_MARKED_BYTES)


def check_places(paths: Sequence[Path]) -> None:
    """Refuse endings that are not known, and folders that cannot be made or stand in the way, before any work.

    Raises:
        UsageError: as it says.
    """
    for path in paths:
        if path.suffix.lower() not in _MARKS:
            raise unknown_name(f"ending of {path.name}:", path.suffix, _MARKS)
        if path.is_dir():
            raise UsageError(f"cannot write to {path}: it is a folder.")
        writable_folder(path.parent)


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
