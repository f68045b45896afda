"""Telling: a study in a process of its own, asked on standard input, that tells its progress line by line as JSON.

``python -m cross_backend.study.telling`` reads ``{"study": …, "db": …}``. It ends, with what was measured stored, when
standard input closes: whoever asked is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any

from cross_backend.errors import CrossBackendError, one_line


def main() -> int:
    """Run what is asked for; 0 if it was finished."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print, when they are imported, too, is no progress
    from cross_backend.cache import Cache
    from cross_backend.store import Store
    from cross_backend.study.driver import Watch, run
    from cross_backend.study.spec import Study

    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    study = Study.from_json(asked["study"])
    panels, done = len(study.panels()), 0

    def tell(**facts: Any) -> None:
        print(json.dumps(facts), file=told, flush=True)

    try:
        with Store.open(asked["db"]) as store:

            def begin(left: Sequence[int]) -> None:
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
    except KeyboardInterrupt:
        tell(error="stopped; what was finished is stored")
        return 1
    except (CrossBackendError, OSError) as error:
        tell(error=one_line(error, 500))
        return 1
    tell(share=1.0, text="finished")
    return 0


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    sys.exit(main())
