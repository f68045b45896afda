"""Telling: a localization, or the reproducer of one, in a process of its own.

``python -m cross_backend.localization.telling`` reads ``{"capture": folder, "workload": …, "target": …, "threads": …,
"cache": folder, "reproducer": whether to write the script of what was found}``. What it finds or writes is kept in
the cache (``kept``).
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cross_backend.worker.telling import Tell, answer_once

if TYPE_CHECKING:
    from cross_backend.cache import Cache
    from cross_backend.program.captured import Captured


def _work(asked: dict[str, Any], tell: Tell) -> None:
    """Localize what is asked for, or write its reproducer."""
    from cross_backend.cache import Cache
    from cross_backend.program.captured import Captured

    captured = replace(Captured.read(Path(asked["capture"])), workload=asked["workload"])
    cache = Cache(Path(asked["cache"]))
    if asked["reproducer"]:
        _reproduce(captured, asked["target"], cache, tell)
    else:
        _localize(captured, asked["target"], asked["threads"], cache, tell)


def _localize(captured: Captured, target: str, threads: int, cache: Cache, tell: Tell) -> None:
    from cross_backend.comparison.settings import Settings
    from cross_backend.localization.localize import localize

    def observe(doing: str, share: float | None) -> None:
        tell(text=doing, **({} if share is None else {"share": share}))

    found = localize(captured, target, cache=cache, settings=Settings(threads=threads), observe=observe)
    tell(says=found.summary)


def _reproduce(captured: Captured, target: str, cache: Cache, tell: Tell) -> None:
    from cross_backend.errors import UnsupportedError
    from cross_backend.localization.kept import keep_reproducer, kept_localized
    from cross_backend.localization.reproducer import Budget
    from cross_backend.localization.vendors_script import reproducer_for

    kept = kept_localized(cache, captured.digest, target)
    if kept is None:
        raise UnsupportedError("no search was finished for this artifact; find the operator first.")

    def show(doing: str, done: int, total: int) -> None:
        tell(text=f"{doing} ({done} of {total} lowerings)", share=done / total)

    with cache.scratch() as folder:
        budget = Budget(lowerings=32, seconds=60.0)  # somebody waits
        made = reproducer_for(captured, kept.found, folder, cache, show, budget)
        keep_reproducer(cache, captured.digest, target, made)
    tell(says=f"{made.lines} lines show it by themselves: {made.fault}.")


if __name__ == "__main__":
    sys.exit(answer_once(_work))
