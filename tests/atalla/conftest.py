"""What Atalla's tests share: the C library, built once by the compiler that is here."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest

from atalla.build import build


@pytest.fixture(scope="session")
def library(shared_folder: Path) -> Iterator[Path]:
    """Build the library once for all processes, and use it."""
    path = shared_folder / "libatalla.so"
    with (shared_folder / "libatalla.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            build(path, ["-Werror"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATALLA_LIBRARY", str(path))
        yield path
