"""Spool: records that the database could not take wait in files, each whole or not there, until it can."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cross_backend.errors import StoreError, one_line
from cross_backend.records import PanelKey
from cross_backend.store.database import Database
from cross_backend.store.rows import Packet, converter

FORMAT = "cross-backend-spool"
VERSION = 1
"""History: 1, the first."""
SUFFIX = ".record.json"
REFUSED = ".refused"
"""Added to the name of what can never be taken in, so that it is told once and kept."""


@dataclass(frozen=True)
class Entry:
    """A record and where it belongs."""

    study: str
    """The study's ``uid``."""
    panel: PanelKey
    kind: str
    """``launch`` or ``instruments``."""
    number: int
    """Of the launch in time, of the target whose instruments these are."""
    trials: int
    """Targets in it."""
    packet: Packet


def folders(place: Database) -> list[Path]:
    """Return where entries of a database may wait, the better place first."""
    import platformdirs

    if place.path:
        beside = place.path.with_name(f"{place.path.name}.spooled")
    else:
        beside = Path(platformdirs.user_data_dir("cross-backend", appauthor=False), f"spooled-{place.digest}")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return [beside, Path(tempfile.gettempdir(), f"cross-backend-spooled-{user}-{place.digest}")]


def spool(place: Database, entry: Entry) -> Path:
    """Write an entry where there is room for it; return the file.

    Raises:
        StoreError: nowhere.
    """
    text = json.dumps({"format": FORMAT, "version": VERSION, "entry": converter().unstructure(entry)})
    name = f"{entry.study}-{entry.kind}-{entry.number}-{os.getpid()}-{os.urandom(4).hex()}{SUFFIX}"
    reasons = []
    for folder in folders(place):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(folder):
                reasons.append(f"{folder} belongs to somebody else")
                continue
            return _write_whole(folder / name, text.encode())
        except OSError as error:
            reasons.append(one_line(error))
            _drop_empty(folder)
    raise StoreError(f"it could not be kept in a file either ({'; '.join(reasons)})")


def waiting(place: Database) -> list[Path]:
    """Return the files of entries that wait for a database, oldest first in either folder."""
    found: list[Path] = []
    for folder in folders(place):
        try:
            if folder.is_dir() and _is_ours(folder):
                files = (path for path in folder.glob(f"*{SUFFIX}") if path.is_file())  # and no pipe, which would block
                found += sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name))
        except OSError:
            continue  # another process took them in meanwhile
    return found


def read(path: Path) -> Entry:
    """Read an entry.

    Raises:
        ValueError: damaged, or written by a newer version.
        OSError: it cannot be read, or is gone.
    """
    data = path.read_bytes()
    try:
        row = json.loads(data)
        if row["format"] != FORMAT or row["version"] != VERSION:
            raise ValueError(f"format {row['format']} {row['version']}")
        return converter().structure(row["entry"], Entry)
    except Exception as error:  # cattrs raises groups of whatever its hooks raise
        raise ValueError(one_line(error)) from error


def remove(paths: Sequence[Path]) -> None:
    """Delete what was taken in, and folders that are empty then."""
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        _drop_empty(folder)


def refuse(path: Path) -> Path:
    """Put aside what can never be taken in."""
    return path.rename(path.with_name(path.name + REFUSED))


def _drop_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not empty, or another process was faster
        folder.rmdir()


def _is_ours(folder: Path) -> bool:
    """Whether nobody else could have put files there; anybody may make folders in the temporary one."""
    if not hasattr(os, "getuid"):
        return True
    return not folder.is_symlink() and folder.stat().st_uid in {os.getuid(), folder.parent.stat().st_uid}


def _write_whole(path: Path, data: bytes) -> Path:
    """Write beside, synchronise, rename; a power cut leaves the whole file or none."""
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return path
