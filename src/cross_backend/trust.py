"""Trust: which files that hold code may be opened: those that this machine made, and those that the user trusts.

Both are remembered by digest in the cache, so that worker processes know it as well.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from cross_backend.artifact import digest_path
from cross_backend.cache import Cache
from cross_backend.errors import ArtifactError, UntrustedError

_FOLDER = "trusted"


def keep(cache: Cache, path: Path) -> None:
    """Trust a file or folder, by its digest, from now on.

    Raises:
        OSError: it cannot be read, or the cache cannot be written.
    """
    folder = cache.root / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / digest_path(path)).touch()


def is_trusted(cache: Cache, path: Path) -> bool:
    """Whether a file or folder was made here, or trusted before."""
    with contextlib.suppress(OSError, ArtifactError):
        return knows(cache, digest_path(path))
    return False


def knows(cache: Cache, digest: str) -> bool:
    """Whether the file of a digest was made here, or trusted before."""
    return (cache.root / _FOLDER / digest).is_file()


def require(cache: Cache, path: Path, what: str) -> None:
    """Refuse a file that holds code and comes from elsewhere.

    Args:
        cache: where trusted digests are.
        path: the file.
        what: the code that it holds, for the reader.

    Raises:
        UntrustedError: it was neither made here nor trusted.
    """
    if not is_trusted(cache, path):
        raise untrusted(path, what)


def untrusted(path: Path, what: str) -> UntrustedError:
    """Return the refusal of a file that holds code and comes from elsewhere."""
    return UntrustedError(
        f"{path} holds {what}, which is code, and was not made on this machine. "
        "If you trust its author, pass --trust (in Python: trust=True)."
    )
