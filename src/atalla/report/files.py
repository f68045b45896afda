"""Files of reports: whole or not at all."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def replace_file(path: Path, text: str) -> None:
    """Write beside the place, then move there: a reader never sees half a report.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    part = path.parent / f".{path.name[:50]}.{os.getpid()}.part"
    try:
        part.unlink(missing_ok=True)  # a link that somebody put there would be followed
        with part.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
        part.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()
