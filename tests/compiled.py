"""Compiled: small programs in C++ that a compiler takes or refuses; asked once for all runs of the same sources."""

from __future__ import annotations

import fcntl
import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import surroundings


def compiled(
    command: Sequence[str], files: Mapping[str, str], versions: Mapping[str, str], *, refused_for: str | None = None
) -> Path:
    """Compile in a folder that holds these files; return the folder, which is kept if all went as expected.

    Args:
        command: the compiler and its words; paths are relative to the folder.
        files: name → text.
        versions: of packages whose headers and libraries the command names.
        refused_for: what the compiler must say where it must refuse them.
    """
    version = subprocess.run([command[0], "--version"], capture_output=True, text=True, check=True).stdout
    made_of = json.dumps([list(command), dict(files), dict(versions), version, refused_for], sort_keys=True)
    place = surroundings.KEPT / "native" / hashlib.sha256(made_of.encode()).hexdigest()[:16]
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "as_expected").exists():
            for name, text in files.items():
                (place / name).write_text(text, encoding="utf-8")
            done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
            assert (done.returncode != 0) == (refused_for is not None), done.stderr[-4000:]
            assert refused_for is None or refused_for in done.stderr, done.stderr[-4000:]
            (place / "as_expected").touch()
    return place
