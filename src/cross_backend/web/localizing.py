"""Localizing: the search for an operator that an artifact's backend computes wrongly, or its reproducer, for a page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

from cross_backend.cache import Cache
from cross_backend.errors import UnavailableError
from cross_backend.localization.kept import KeptLocalized, KeptReproducer, kept_localized, kept_reproducer
from cross_backend.program.captures import capture_of
from cross_backend.web.catalogue import Choice
from cross_backend.web.jobs import Job, Progress

SEARCH, REPRODUCER = "search", "reproducer"


@dataclass(frozen=True)
class LocalizingProgress(Progress):
    """How far the last search or reproducer is that was begun here."""

    kind: str = SEARCH
    """Or ``reproducer``."""
    artifact: str | None = None
    """Key of what is searched."""
    title: str = ""
    says: str = ""
    """What was found or written, in one line; empty while nothing was."""
    page: str | None = None
    """Address of the page that shows what was found, or of the reproducer's script."""


class Localizing(Job[LocalizingProgress]):
    """Begins searches and reproducers, one at a time, and says how far the last one is."""

    def __init__(self, cache: Cache, threads: int, tell: Callable[..., None]) -> None:
        """Prepare.

        Args:
            cache: holds the captured programs; what is found is kept there.
            threads: CPU threads of the targets.
            tell: is told (``localize``, facts) of each step.
        """
        super().__init__("cross_backend.localization.telling", "localize", LocalizingProgress(), tell)
        self._cache, self._threads = cache, threads

    def begin(self, choice: Choice, kind: str = SEARCH) -> LocalizingProgress:
        """Begin to search, or to write the reproducer of what was found last.

        Raises:
            UnavailableError: it cannot run here, or its program is not in the cache.
            UsageError: another one runs.
        """
        artifact = choice.artifact
        if artifact is None or choice.unavailable:
            raise UnavailableError(f"{choice.title} cannot run here: {choice.unavailable}")
        folder = capture_of(artifact.program, self._cache)
        if folder is None:
            raise UnavailableError(
                f"the cache does not hold the program of {choice.workload}; export it here once more, "
                f"or run 'cross-backend localize MODEL --backend {choice.target}'."
            )
        asked = {
            "capture": str(folder),
            "workload": artifact.workload,
            "target": artifact.target,
            "threads": self._threads,
            "cache": str(self._cache.root),
            "reproducer": kind == REPRODUCER,
        }
        page = f"/artifacts/{quote(choice.key)}/{'reproducer.py' if kind == REPRODUCER else 'localized'}"
        begun = LocalizingProgress(
            "running", text="starting", kind=kind, artifact=choice.key, title=choice.title, page=page
        )
        return self._begin(asked, begun, "a search or a reproducer runs already; begin another when it is finished.")

    def kept(self, choice: Choice) -> KeptLocalized | None:
        """Return what the last search found of a choice, by a page or by the command; None where none was kept."""
        artifact = choice.artifact
        return None if artifact is None else kept_localized(self._cache, artifact.program, artifact.target)

    def reproducer(self, choice: Choice) -> KeptReproducer | None:
        """Return the reproducer of what was found last, where a page began one."""
        artifact = choice.artifact
        return None if artifact is None else kept_reproducer(self._cache, artifact.program, artifact.target)
