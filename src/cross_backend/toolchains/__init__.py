"""Toolchains: private environments for packages that cannot live in the main one, and runtimes that are no packages."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from cross_backend.errors import CrossBackendError
from cross_backend.toolchains._steps import VARIABLE, root
from cross_backend.toolchains.environments import TOOLCHAINS, Toolchain, find_toolchain
from cross_backend.toolchains.npm import FILES, RuntimeFiles
from cross_backend.toolchains.runners import RUNNER, RUNNERS, RunnerBuild

__all__ = [
    "EVERY",
    "FILES",
    "RUNNER",
    "RUNNERS",
    "TOOLCHAINS",
    "VARIABLE",
    "RunnerBuild",
    "RuntimeFiles",
    "Toolchain",
    "add",
    "find_toolchain",
    "remove",
    "root",
]

EVERY: dict[str, Toolchain | RuntimeFiles | RunnerBuild] = {**TOOLCHAINS, **FILES, **RUNNERS}
"""All that can be added by name."""


def add(toolchain: Toolchain | RuntimeFiles | RunnerBuild, tell: Callable[[str], None]) -> None:
    """Install a toolchain; one that was cut off is begun again.

    Raises:
        CrossBackendError: pip or npm failed, with its last line; or what came is not what was pinned.
    """
    if toolchain.added:
        return
    with _only_here(toolchain, tell):
        _begin_again(toolchain, tell)


def _begin_again(toolchain: Toolchain | RuntimeFiles | RunnerBuild, tell: Callable[[str], None]) -> None:
    if toolchain.added:  # by whoever was waited for
        return
    _clear(toolchain.folder)
    try:
        toolchain.install(tell)
        (toolchain.folder / "ready").write_text("")
    finally:
        if not toolchain.added:
            _clear(toolchain.folder)


@contextlib.contextmanager
def _only_here(toolchain: Toolchain | RuntimeFiles | RunnerBuild, tell: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other process installs it: a second one would delete what the first one builds."""
    from filelock import FileLock, Timeout

    folder = toolchain.folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f"{folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        tell(f"{toolchain.name}: another process adds it; waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def remove(toolchain: Toolchain | RuntimeFiles | RunnerBuild) -> bool:
    """Delete a toolchain; say whether it was there.

    Raises:
        CrossBackendError: something of it cannot be deleted.
    """
    there = toolchain.folder.is_dir()
    _clear(toolchain.folder)
    return there


def _clear(folder: Path) -> None:
    """Delete what lies at a toolchain's place; of a link the link itself, and never what it leads to."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            folder.unlink(missing_ok=True)
    if os.path.lexists(folder):
        raise CrossBackendError(f"{folder} cannot be deleted; delete it yourself.")
