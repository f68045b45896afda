"""What Atalla's tests share: the C library, built anew where the checkout's is older than its sources."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from atalla.build import build, is_stale
from atalla.library import library_path


@pytest.fixture(scope="session", autouse=True)
def library(shared_folder: Path) -> Iterator[Path]:
    """Give the library, and let whatever a test starts use it."""
    path = library_path()
    with (shared_folder / "libatalla.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_stale(path):
            build(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATALLA_LIBRARY", str(path))
        yield path
