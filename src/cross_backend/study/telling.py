"""Telling: a study in a process of its own.

``python -m cross_backend.study.telling`` reads ``{"study": …, "db": …}``. It ends, with what was measured stored, when
standard input closes: whoever asked is gone.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from cross_backend.worker.telling import Tell, answer_once


def _work(asked: dict[str, Any], tell: Tell) -> None:
    """Run what is asked for."""
    from cross_backend.cache import Cache
    from cross_backend.store import Store
    from cross_backend.study.driver import run
    from cross_backend.study.spec import StudySpec
    from cross_backend.study.watch import Watch

    study = StudySpec.from_json(asked["study"])
    panels, done = len(study.panels()), 0
    with Store.open(asked["db"]) as store:

        def begin(left: Sequence[int], _classes: int) -> None:
            nonlocal done
            done = panels - len(left)
            number = next(row.id for row in reversed(store.studies()) if row.name == study.name)
            tell(study=number, share=done / panels, text="begun")

        def finished(_panel: object) -> None:
            nonlocal done
            done += 1

        def progress(text: str, share: float) -> None:
            tell(share=(done + share) / panels, text=text)

        run(study, store, Cache(), Watch(begin=begin, progress=progress, panel=finished))


if __name__ == "__main__":
    sys.exit(answer_once(_work, "stopped; finished work is stored"))
