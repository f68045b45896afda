"""Studying: a study that a page began: in a process of its own, one at a time, its progress told as events."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cross_backend.errors import UsageError
from cross_backend.study.spec import Study, StudySettings, WorkloadSpec
from cross_backend.workloads.table import WORKLOADS

NAME = "page"
"""What studies that pages begin are called."""
MOST_MODELS, MOST_TARGETS = 8, 16
MOST_SECONDS, MOST_LAUNCHES = 60.0, 15
END_S = 20.0
"""How long a study may take to store what it has when the server ends."""


@dataclass(frozen=True)
class Progress:
    """How far the last study is that was begun here."""

    state: str = "none"
    """``none``, ``running``, ``finished`` or ``failed``."""
    share: float = 0.0
    """0 to 1."""
    text: str = ""
    """What is being done, or why it ended."""
    study: int | None = None
    """Its number, once it is stored."""


class Studying:
    """Begins studies, and says how far the last one is; threads may ask at once."""

    def __init__(self, db: str | None, tell: Callable[..., None]) -> None:
        """Prepare; ``tell`` is told (``study``, facts) of each step."""
        self._db, self._tell = db, tell
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.progress = Progress()

    def begin(self, models: Sequence[str], targets: Sequence[str], seconds: float, launches: int) -> Progress:
        """Begin a study; it goes on where one of the same content was cut off.

        Raises:
            UsageError: a name is unknown, a number out of its range, or another study runs.
        """
        study = asked_study(models, targets, seconds, launches)
        with self._lock:
            if self._process is not None:
                raise UsageError("a study runs already; begin another when it is finished.")
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cross_backend.study.telling"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C reaches the server only, whose end closes its input
            )
            assert self._process.stdin is not None, "it was asked for"
            with contextlib.suppress(OSError):  # it is gone already: its status is told
                self._process.stdin.write(json.dumps({"study": study.to_json(), "db": self._db}) + "\n")
                self._process.stdin.flush()
            self.progress = Progress("running", text="starting")
        threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()
        return self.progress

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None, "it was asked for"
        error = ""
        with process:
            for line in process.stdout:
                told = json.loads(line)
                error = told.get("error", error)
                share, text = told.get("share", self.progress.share), told.get("text", error)
                self._say(Progress("running", share, text, told.get("study", self.progress.study)))
        status = process.returncode
        with self._lock:
            self._process = None
        state, text = ("finished", "finished") if status == 0 else ("failed", error or f"it ended with status {status}")
        self._say(Progress(state, self.progress.share, text, self.progress.study))

    def _say(self, progress: Progress) -> None:
        self.progress = progress
        self._tell("study", **vars(progress))

    def close(self) -> None:
        """End what runs; what it has measured is stored."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None, "it was asked for"
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def asked_study(models: Sequence[str], targets: Sequence[str], seconds: float, launches: int) -> Study:
    """Return the study that a page asks for: of built-in models only, as a request may name no file.

    Raises:
        UsageError: a name is unknown, or a number out of its range.
    """
    if not 1 <= len(models) <= MOST_MODELS or not 1 <= len(targets) <= MOST_TARGETS:
        raise UsageError(f"1 to {MOST_MODELS} models and 1 to {MOST_TARGETS} targets are wanted.")
    for model in models:
        if model not in WORKLOADS:
            raise UsageError(f"there is no built-in model {model[:40]!r}.")
    if not 0.1 <= seconds <= MOST_SECONDS or not 1 <= launches <= MOST_LAUNCHES:
        raise UsageError(f"0.1 to {MOST_SECONDS:g} seconds and 1 to {MOST_LAUNCHES} launches are wanted.")
    settings = StudySettings(seconds=seconds, launches=launches, max_launches=launches, instruments=("memory",))
    study = Study(NAME, tuple(map(WorkloadSpec.find, models)), tuple(targets), settings=settings)
    study.check_names()
    return study
