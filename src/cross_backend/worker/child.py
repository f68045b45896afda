"""Child: what runs in a worker process: it answers the questions of ``process.Worker``, which started it."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import shutil
import signal
import sys
import threading
import time
from typing import IO, Any

from cross_backend.errors import CrossBackendError, UnavailableError, one_line
from cross_backend.serialization import to_json
from cross_backend.worker.question import Answering, question_of

LEASE_VARIABLE = "CROSS_BACKEND_LEASE"
"""Seconds without a line from the parent after which a worker ends; set where the parent is on another machine."""
SCRATCH_VARIABLE = "CROSS_BACKEND_SCRATCH"
"""Folder that a worker deletes when its parent is gone."""


def _serve(requests: IO[bytes], answers: IO[bytes], process: Answering) -> None:
    """Answer until the parent is gone."""
    incoming: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    heard_s = time.monotonic()

    def read() -> None:
        nonlocal heard_s
        for line in requests:
            heard_s = time.monotonic()
            if line.strip():  # an empty one only says that the parent is there
                incoming.put(line)
        _die()  # the parent is gone: stop even in the middle of work

    def watch(lease_s: float) -> None:
        while time.monotonic() - heard_s < lease_s:
            time.sleep(min(1.0, lease_s / 4))
        _die()  # nothing says any more that the connection is whole

    threading.Thread(target=read, daemon=True).start()
    if LEASE_VARIABLE in os.environ:
        threading.Thread(target=watch, args=(float(os.environ[LEASE_VARIABLE]),), daemon=True).start()
    while True:
        answers.write(json.dumps(_answer(json.loads(incoming.get()), process)).encode() + b"\n")
        answers.flush()


def _answer(request: dict[str, Any], process: Answering) -> dict[str, Any]:
    """Return the answer, or the error that was raised instead."""
    try:
        return {"value": to_json(question_of(request).answer(process))}
    except UnavailableError as error:
        return {"error": {"type": "UnavailableError", "reason": error.reason, "remedy": error.remedy}}
    except CrossBackendError as error:
        return {"error": {"type": type(error).__name__, "text": str(error)}}
    except OSError as error:  # a full disk, say: printing a traceback to the log would fail as well
        return {"error": {"type": "CrossBackendError", "text": one_line(error)}}
    except Exception as error:
        import traceback

        traceback.print_exc()
        return {"error": {"type": "CrossBackendError", "text": one_line(error)}}


def _die() -> None:
    """End this process and what it started, and delete its temporary files."""
    if SCRATCH_VARIABLE in os.environ:
        shutil.rmtree(os.environ[SCRATCH_VARIABLE], ignore_errors=True)
    if hasattr(os, "killpg") and os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Keep the pipes for the protocol and send whatever libraries print to the log."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in sys.argv[2:]:
        with contextlib.suppress(Exception):  # whoever needs it says what is wrong
            importlib.import_module(module)
    _serve(requests, answers, Answering(time.perf_counter_ns()))
