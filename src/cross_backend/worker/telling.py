"""Telling: a process that is asked once, on standard input, and reports its progress line by line as JSON.

It ends when standard input closes: whoever asked is gone.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from cross_backend.errors import CrossBackendError, one_line

Tell = Callable[..., None]
"""Called with facts by name: ``share`` of the work that is done, ``text`` of what is done now, and others."""


def answer_once(work: Callable[[dict[str, Any], Tell], None], stopped: str = "stopped") -> int:
    """Read what is asked, work, and tell how that ended.

    Args:
        work: called with what was asked, and what reports its progress.
        stopped: what is told where nobody waits any longer.

    Returns:
        The exit status; 0 if it was finished.
    """
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print, when they are imported, too, is no progress

    def tell(**facts: Any) -> None:
        print(json.dumps(facts), file=told, flush=True)

    asked = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        work(asked, tell)
    except KeyboardInterrupt:
        tell(error=stopped)
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
