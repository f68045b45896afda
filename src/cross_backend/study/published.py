"""Published: the progress of a study that a command runs, in a file of the cache that pages of this machine read."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cross_backend.cache import Cache
from cross_backend.foreign_files import open_regular
from cross_backend.report.progress import Show
from cross_backend.report.tables import Table

FOLDER = "running"
EVERY_S = 1.0
"""Between two writes."""
MOST_BYTES = 1_000_000
MOST_LINES = 200
MOST_NOTES = 5
WHOLE = "study"
"""Key of the line that says how far all of it is."""


@dataclass(frozen=True)
class ProgressLine:
    """What one machine, class or lowering does now."""

    key: str
    text: str
    share: float | None
    """Of it that is done, 0 to 1; None where unknown."""
    left: str
    """The time left in words; empty where unknown."""


@dataclass(frozen=True)
class RunningStudy:
    """A study that a command on this machine runs."""

    study: str
    """Its name."""
    process: int
    lines: tuple[ProgressLine, ...]
    """That of the whole study first."""
    notes: tuple[str, ...]
    """What a user should know, the latest last."""


class Published(Show):
    """Shows progress as another does, and keeps the file."""

    def __init__(self, path: Path, facts: Mapping[str, Any], then: Show) -> None:
        """Prepare.

        Args:
            path: of the file.
            facts: what it says beside the progress.
            then: shows the progress, too.
        """
        self._path, self._facts, self._then = path, facts, then
        self._lines: dict[str, ProgressLine] = {}
        self._notes: deque[str] = deque(maxlen=MOST_NOTES)
        self._written_s = -EVERY_S

    def __call__(self, key: str, text: str, share: float | None, left: str = "") -> None:
        """Show what a key's work does now; it is gone from the file when it is done."""
        self._then(key, text, share, left)
        if share == 1:
            self._lines.pop(key, None)
        else:
            self._lines[key] = ProgressLine(key, text, share, left)
        self._write()

    def table(self, table: Table | None) -> None:
        """Show a table; it is not in the file."""
        self._then.table(table)

    def note(self, text: str) -> None:
        """Keep what a user should know."""
        self._notes.append(text)
        self._written_s = -EVERY_S
        self._write()

    def _write(self) -> None:
        if time.monotonic() - self._written_s < EVERY_S:
            return
        self._written_s = time.monotonic()
        ordered = sorted(self._lines.values(), key=lambda line: line.key != WHOLE)[:MOST_LINES]
        told = {**self._facts, "lines": [asdict(line) for line in ordered], "notes": list(self._notes)}
        part = self._path.with_suffix(".part")
        with contextlib.suppress(OSError):  # a full disk stops no study: nothing but a page misses it
            part.write_text(json.dumps(told), encoding="utf-8")
            part.replace(self._path)


@contextmanager
def publishing(cache: Cache, study: str, database: str, then: Show) -> Iterator[Published]:
    """Publish what is shown in the context.

    Args:
        cache: whose folder holds the file.
        study: name.
        database: digest of the place where it is stored.
        then: shows the progress, too.
    """
    import psutil

    path = cache.root / FOLDER / f"{os.getpid()}.json"
    facts = {"study": study, "process": os.getpid(), "database": database, "since": psutil.Process().create_time()}
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield Published(path, facts, then)
    finally:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def running(cache: Cache, database: str) -> list[RunningStudy]:
    """Return the studies that commands on this machine run now, whose results go to a database; oldest first.

    Args:
        cache: that they use.
        database: digest of the place.
    """
    found = []
    for path in (cache.root / FOLDER).glob("*.json"):
        try:
            with open_regular(path) as file:
                row = json.loads(file.read(MOST_BYTES))
            if not _is_alive(int(row["process"]), float(row["since"])):
                path.unlink(missing_ok=True)  # it was killed
            elif row["database"] == database:
                lines = tuple(ProgressLine(**line) for line in row["lines"])
                found.append((row["since"], RunningStudy(row["study"], row["process"], lines, tuple(row["notes"]))))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it ended meanwhile, or is none of ours
    return [study for _, study in sorted(found, key=lambda row: row[0])]


def _is_alive(process: int, since: float) -> bool:
    """Whether a process runs that began then: numbers of processes come again."""
    import psutil

    try:
        return bool(abs(psutil.Process(process).create_time() - since) < 1)
    except psutil.Error:
        return False
