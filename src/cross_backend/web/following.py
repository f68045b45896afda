"""Following: the studies that commands on this machine run, told as events while they change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Self

from cross_backend.cache import Cache
from cross_backend.store.database import Database
from cross_backend.study.published import RunningStudy, running

EVERY_S = 1.0
"""Between two looks."""


class Following:
    """Looks at the running studies in a thread of its own, used in ``with``."""

    def __init__(self, cache: Cache, db: str | None, tell: Callable[..., None]) -> None:
        """Prepare.

        Args:
            cache: that the commands use.
            db: where the server's studies lie; others are left out.
            tell: told (``running``, facts) of each change.
        """
        self._cache, self._database, self._tell = cache, Database.named(db).digest, tell
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def now(self) -> Sequence[RunningStudy]:
        """Return the studies that run now."""
        return running(self._cache, self._database)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _follow(self) -> None:
        before: Sequence[RunningStudy] = ()
        while not self._ends.wait(EVERY_S):
            found = self.now()
            if found != before:
                before = found
                self._tell("running", **told(found))


def told(studies: Sequence[RunningStudy]) -> dict[str, Any]:
    """Return running studies as JSON."""
    return {"studies": [asdict(study) for study in studies]}
