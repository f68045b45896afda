"""Cache: captured workloads and artifacts by content, published whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from cross_backend.errors import UsageError

VARIABLE = "CROSS_BACKEND_CACHE"
"""Environment variable that overrides where the cache lies."""
KEEP_S = 7 * 24 * 3600
"""How long logs, and scratch folders of processes that were killed, are kept; seconds."""
LIMIT_VARIABLE = "CROSS_BACKEND_CACHE_GB"
"""Environment variable: size above which captures and artifacts are deleted, in GB."""
LIMIT_GB = 20.0
BULKY = ("artifacts", "captures")
"""Kinds that are deleted: exporting a model makes them again."""
IN_USE_S = 24 * 3600
"""Entries used this recently are never deleted: a study or a notebook may hold their paths; seconds."""
PRUNE_EACH_S = 600
"""Shortest time between two checks of the size; seconds."""


class Cache:
    """Folders by kind and key. Several processes may use it at once: the first to publish a key wins."""

    def __init__(self, root: Path | None = None) -> None:
        if root is None:
            import platformdirs

            named = os.environ.get(VARIABLE)
            root = Path(named) if named else Path(platformdirs.user_cache_dir("cross-backend", appauthor=False))
            limit_bytes()
        self.root = root

    def find(self, kind: str, key: str) -> Path | None:
        """Return the folder of an entry, or None."""
        folder = self.root / kind / key
        self.use(folder)
        return folder if folder.is_dir() else None

    def use(self, folder: Path) -> None:
        """Note that an entry is used, if this folder is one: those used last are kept longest."""
        if folder.parent.parent == self.root:
            with contextlib.suppress(OSError):  # it is not there, or the cache can only be read
                os.utime(folder)

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Return an empty folder on the cache's file system; what was not published is deleted."""
        parent = self.root / "tmp"
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def sweep(self, pid: int) -> None:
        """Delete the scratch folders of a process that was killed."""
        for folder in (self.root / "tmp").glob(f"{pid}-*"):
            shutil.rmtree(folder, ignore_errors=True)

    def publish(self, folder: Path, kind: str, key: str) -> Path:
        """Move a finished scratch folder to its place in one step; return where the entry lies."""
        destination = self.root / kind / key
        destination.parent.mkdir(parents=True, exist_ok=True)
        try:
            folder.rename(destination)
        except OSError:
            if not destination.is_dir():
                raise
        self.use(destination)
        self._prune()
        return destination

    def size_bytes(self) -> int:
        """Return the size of all captures and artifacts."""
        return sum(size for _, size, _ in self._entries())

    def _prune(self) -> None:
        """Delete the entries that were used least recently, until the others fit the limit."""
        checked, now = self.root / "pruned", time.time()
        with contextlib.suppress(OSError):
            if now - checked.stat().st_mtime < PRUNE_EACH_S:
                return
        with contextlib.suppress(OSError):
            checked.touch()
        entries = sorted(self._entries())
        surplus = sum(size for _, size, _ in entries) - limit_bytes()
        for used, size, folder in entries:
            if surplus <= 0 or now - used < IN_USE_S:
                return
            with contextlib.suppress(OSError), self.scratch() as scratch:
                if folder.exists():
                    if now - folder.stat().st_mtime < IN_USE_S:
                        continue  # used since it was listed
                    folder.rename(scratch / folder.name)  # in one step: nobody finds half an entry
                surplus -= size

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        """Yield when each entry was used, its size in bytes, and its folder."""
        for folder in (entry for kind in BULKY for entry in self.root.glob(f"{kind}/*")):
            with contextlib.suppress(OSError):  # another process deletes it
                size = sum(path.lstat().st_size for path in folder.rglob("*"))
                yield folder.stat().st_mtime, size, folder

    def log(self, name: str) -> Path:
        """Return the path of this process's log; logs and scratch that others left long ago are deleted."""
        oldest = time.time() - KEEP_S
        for path in [*self.root.glob("logs/*"), *self.root.glob("tmp/*")]:
            with contextlib.suppress(OSError):  # another process may do the same
                if path.stat().st_mtime < oldest:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        return self.root / "logs" / f"{name}-{os.getpid()}.log"

    def drop(self, kind: str, key: str) -> None:
        """Delete an entry that turned out damaged."""
        shutil.rmtree(self.root / kind / key, ignore_errors=True)


def limit_bytes() -> float:
    """Return the size that the cache is kept to.

    Raises:
        UsageError: the variable holds no size.
    """
    text = os.environ.get(LIMIT_VARIABLE) or str(LIMIT_GB)
    try:
        limit = float(text)
    except ValueError:
        limit = -1.0
    if not limit >= 0:
        raise UsageError(f"{LIMIT_VARIABLE} is '{text}'. Give a size in GB, such as {LIMIT_GB:.0f}.")
    return limit * 1e9


def key_of(parts: Mapping[str, object]) -> str:
    """Return the key of what depends on these parts and nothing else."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
