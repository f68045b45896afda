"""Files of reports: whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from cross_backend.errors import ReportError, UsageError


def replace_file(path: Path, parts: Iterable[str]) -> None:
    """Write beside the place, then move there: a reader never sees half a report.

    Raises:
        ReportError: it cannot be written; what was there stays.
    """
    part = path.parent / f".{path.name[:50]}.{os.getpid()}.part"
    try:
        part.unlink(missing_ok=True)  # a link that somebody put there would be followed
        with part.open("x", encoding="utf-8", errors="replace", newline="\n") as file:
            file.writelines(parts)
        part.replace(path)
    except OSError as error:
        told = f"cannot write {path}: {error.strerror}; name a file in a folder that can be written"
        raise ReportError(told) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


def writable_folder(path: Path) -> Path:
    """Create an output folder.

    Raises:
        UsageError: it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}.") from error
    return path
