"""User's code: the line of it that an error came from, among the frames of installed packages."""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

from cross_backend.errors import one_line


def with_place(error: BaseException) -> str:
    """Return an exception's message as one line, behind the line of the user's code: ``net.py:12: ValueError: …``."""
    place = place_of(error)
    return f"{place}: {one_line(error)}" if place else one_line(error)


def place_of(error: BaseException | None) -> str | None:
    """Return ``file.py:12``, the innermost line outside of installed packages; None where there is none.

    Where torch's own text names a line of ``forward``, as for a branch on data, that one.
    """
    if (named := _NAMED.search(str(error))) and not named[1].startswith("_"):  # torch's own files are named so
        return f"{_shown(named[1])}:{named[2]}"
    while error is not None:
        if isinstance(error, SyntaxError) and error.filename and _is_users(error.filename):
            return f"{_shown(error.filename)}:{error.lineno}"
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
        if frames:
            return f"{_shown(frames[-1].filename)}:{frames[-1].lineno}"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None


_OWN = tuple(Path(__file__).resolve().parents[2] / name for name in ("atalla", "cross_backend"))
_NAMED = re.compile(r"^Caused by: \((.+?):(\d+) in ", re.MULTILINE)
_PACKAGES = {"site-packages", "dist-packages"}


def _is_users(file: str) -> bool:
    """Whether a file belongs neither to Python, nor to an installed package, nor to us."""
    path = Path(file).resolve()
    return not (
        file.startswith("<")
        or _PACKAGES & set(path.parts)
        or any(path.is_relative_to(folder) for folder in (*_OWN, Path(sysconfig.get_path("stdlib")).resolve()))
    )


def _shown(file: str) -> str:
    """Return a path as the user would write it: relative, where it lies below the current folder."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
