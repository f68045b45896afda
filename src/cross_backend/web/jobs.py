"""Jobs: work that a page began: in a process of its own, one at a time of a kind, its progress told as events."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from cross_backend.errors import UsageError

END_S = 20.0
"""How long a job may take to store what it has when the server ends."""


@dataclass(frozen=True)
class Progress:
    """How far the last job is that was begun here."""

    state: str = "none"
    """``none``, ``running``, ``finished`` or ``failed``."""
    share: float = 0.0
    """0 to 1."""
    text: str = ""
    """What is being done, or why it ended."""


Kind = TypeVar("Kind", bound=Progress)


class Job(Generic[Kind]):
    """Begins work, and says how far the last one is; threads may ask at once."""

    def __init__(self, module: str, event: str, idle: Kind, tell: Callable[..., None]) -> None:
        """Prepare.

        Args:
            module: what the process runs; it reads one line of JSON, and writes others (``worker.telling``).
            event: name of the events.
            idle: the progress before anything was begun.
            tell: is told (event, facts) of each step.
        """
        self._module, self._event, self._idle, self._tell = module, event, idle, tell
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.progress = idle

    @property
    def is_running(self) -> bool:
        """Whether it works now."""
        return self._process is not None

    def _begin(self, asked: Mapping[str, Any], begun: Kind, busy: str) -> Kind:
        """Start a process.

        Args:
            asked: what it reads.
            begun: the progress at first.
            busy: why it is refused where another one runs.

        Raises:
            UsageError: another one runs.
        """
        with self._lock:
            if self._process is not None:
                raise UsageError(busy)
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C reaches the server only, whose end closes its input
            )
            assert self._process.stdin is not None, "it was asked for"
            with contextlib.suppress(OSError):  # it is gone already: its status is told
                self._process.stdin.write(json.dumps(asked) + "\n")
                self._process.stdin.flush()
            self.progress = begun
        threading.Thread(target=self._follow, args=(self._process,), daemon=True).start()
        return begun

    def _follow(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None, "it was asked for"
        error = ""
        with process:
            for line in process.stdout:
                told = json.loads(line)
                error = told.get("error", error)
                facts = {name: told[name] for name in vars(self.progress) if name in told}
                self._say(replace(self.progress, **{"text": error or self.progress.text, **facts}))
        status = process.returncode
        with self._lock:
            self._process = None
        state, text = ("finished", "finished") if status == 0 else ("failed", error or f"it ended with status {status}")
        self._say(replace(self.progress, state=state, text=text))

    def _say(self, progress: Kind) -> None:
        self.progress = progress
        self._tell(self._event, **vars(progress))

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
