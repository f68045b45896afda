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

VARIABLE = "CROSS_BACKEND_CACHE"
"""Environment variable that overrides where the cache lies."""
KEEP_S = 7 * 24 * 3600
"""How long logs, and scratch folders of processes that were killed, are kept; seconds."""


class Cache:
    """Folders by kind and key. Several processes may use it at once: the first to publish a key wins."""

    def __init__(self, root: Path | None = None) -> None:
        if root is None:
            import platformdirs

            named = os.environ.get(VARIABLE)
            root = Path(named) if named else Path(platformdirs.user_cache_dir("cross-backend", appauthor=False))
        self.root = root

    def find(self, kind: str, key: str) -> Path | None:
        """Return the folder of an entry, or None."""
        folder = self.root / kind / key
        return folder if folder.is_dir() else None

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
        return destination

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


def key_of(parts: Mapping[str, object]) -> str:
    """Return the key of what depends on these parts and nothing else."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
