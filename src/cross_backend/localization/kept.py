"""Kept: what localizations found, and their reproducers, in the cache by program and target, for pages."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from cross_backend.cache import Cache, key_of
from cross_backend.localization.found import Localized

if TYPE_CHECKING:
    from cross_backend.localization.reproducer import Reproducer

KIND = "localized"
FILE = "localized.json"
SCRIPTS = "reproducers"
SCRIPT, TEXT, FACTS = "reproducer.py", "reproducer.md", "reproducer.json"


@dataclass(frozen=True)
class KeptLocalized:
    """A localization, and when it ended."""

    found: Localized
    when: str
    """Local date and time, to the minute."""


@dataclass(frozen=True)
class KeptReproducer:
    """A script that shows a fault with the vendor's package alone."""

    script: Path
    text: Path
    """For the vendor's tracker, Markdown."""
    fault: str
    """One line."""
    lines: int
    """Of the script."""
    when: str
    """Local date and time, to the minute."""


def _key(program: str, target: str) -> str:
    return key_of({"program": program, "target": target})


def keep_localized(cache: Cache, program: str, target: str, found: Localized) -> None:
    """Keep what was found in place of what was found before; a reproducer of that goes.

    Args:
        cache: where it stays.
        program: digest of the captured program.
        target: full name, with all options.
        found: what the search returned.
    """
    with cache.scratch() as folder:
        (folder / FILE).write_text(json.dumps(found.to_json()), encoding="utf-8")
        cache.drop(SCRIPTS, _key(program, target))
        cache.drop(KIND, _key(program, target))
        cache.publish(folder, KIND, _key(program, target))


def kept_localized(cache: Cache, program: str, target: str) -> KeptLocalized | None:
    """Return what was found last; None where nothing was, or what is kept cannot be read any more."""
    folder = cache.find(KIND, _key(program, target))
    if folder is None:
        return None
    path = folder / FILE
    try:
        found = Localized.from_json(json.loads(path.read_text(encoding="utf-8")))
        seconds = path.stat().st_mtime
    except Exception:  # of another version, or another process replaces it just now
        return None
    return KeptLocalized(found, _minute(seconds))


def keep_reproducer(cache: Cache, program: str, target: str, made: Reproducer) -> None:
    """Keep copies of a reproducer's files; the arguments are those of :func:`keep_localized`."""
    with cache.scratch() as folder:
        shutil.copyfile(made.script, folder / SCRIPT)
        shutil.copyfile(made.text, folder / TEXT)
        (folder / FACTS).write_text(json.dumps({"fault": made.fault, "lines": made.lines}), encoding="utf-8")
        cache.drop(SCRIPTS, _key(program, target))
        cache.publish(folder, SCRIPTS, _key(program, target))


def kept_reproducer(cache: Cache, program: str, target: str) -> KeptReproducer | None:
    """Return the reproducer of what was found last; None where none was written, or it cannot be read any more."""
    folder = cache.find(SCRIPTS, _key(program, target))
    if folder is None:
        return None
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        when = _minute((folder / FACTS).stat().st_mtime)
        return KeptReproducer(folder / SCRIPT, folder / TEXT, str(facts["fault"]), int(facts["lines"]), when)
    except Exception:  # of another version, or another process replaces it just now
        return None


def _minute(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
