"""Runtimes: what is no Python package and tests need: fetched once into ``.cache/tests``, and linked into each run."""

from __future__ import annotations

import contextlib
import os

from filelock import FileLock

from cross_backend.toolchains import FILES, VARIABLE, add
from tests.surroundings import KEPT, run_folder


def bring(name: str) -> None:
    """Have one of ``toolchain add``'s runtimes in this run's folder of toolchains."""
    kept, run = KEPT / "toolchains", run_folder() / "toolchains"
    kept.mkdir(parents=True, exist_ok=True)
    run.mkdir(exist_ok=True)
    before = os.environ[VARIABLE]
    with FileLock(kept / f"{name}.lock"):
        os.environ[VARIABLE] = str(kept)
        try:
            add(FILES[name], print)
            folder = FILES[name].folder
        finally:
            os.environ[VARIABLE] = before
        with contextlib.suppress(FileExistsError):
            (run / folder.name).symlink_to(folder, target_is_directory=True)
