"""What a model's name and its files stand for: the stem of its artifacts, its digest, the packages that it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from cross_backend.errors import UnavailableError
from cross_backend.machine import version_of


def require(name: str, packages: Sequence[tuple[str, str]]) -> None:
    """Check that a model's packages, each with the extra that installs it, are there.

    Raises:
        UnavailableError: one is not.
    """
    for distribution, extra in packages:
        if version_of(distribution) is None:
            raise UnavailableError(f"{name} needs the package {distribution}", f"pip install 'cross-backend[{extra}]'")


def stem_of(text: str) -> str:
    """Return a name as files carry it: letters, digits, ``_`` and ``-``."""
    return "".join(c if c.isalnum() or c in "_-" else "_" for c in text)


def digest_file(path: Path) -> str:
    """Return a file's SHA-256."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
