"""Process: the parent's side of a worker: it answers one question at a time over pipes, and dies alone.

A question is one line of JSON, so is its answer; tensors travel as files. The other side is ``child.py``.
A worker may run under another interpreter: nothing is pickled.
"""

from __future__ import annotations

import contextlib
import getpass
import importlib.util
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

from cross_backend import errors
from cross_backend.errors import CrossBackendError, UnavailableError, WorkerError, WorkerTimeoutError
from cross_backend.serialization import from_json
from cross_backend.worker.child import LEASE_VARIABLE, SCRATCH_VARIABLE
from cross_backend.worker.question import Answer, Question, answer_type, request_of

_KILL_WAIT_S = 10.0
_POLL_S = 0.5
"""Between two looks at the memory of a worker that has a limit."""
_ROOM_BYTES = 100_000
"""A disk with less room is full."""
_LONGEST_ANSWER_BYTES = 256_000_000
"""A longer line on the pipe is no answer of ours, and is not collected to its end."""
_OURS = ("atalla", "cross_backend")
_BROUGHT = ("typing_extensions", "attr", "attrs", "cattrs")
"""Plain Python that our packages import, in the order in which they need each other."""
_BOOTSTRAP = """
import importlib.util, json, os, sys
for name, file in json.loads(sys.argv[1]).items():
    folders = [os.path.dirname(file)] if file.endswith("__init__.py") else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
from cross_backend.worker.child import main
main()
"""
# Another interpreter gets these very packages, and nothing else of the environment that they lie in.
_TEMPORARY_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_INDUCTOR_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
"""Environment variable: where torch.compile keeps what it compiled; else among temporary files."""


Start = Callable[[Path, Sequence[str], Mapping[str, str] | None], "subprocess.Popen[bytes]"]
"""Starts a command with its log and environment variables; the process' standard streams are the command's."""


@dataclass(frozen=True)
class Elsewhere:
    """How a worker is started on another machine."""

    start: Start
    packages: Mapping[str, str]
    """Package → its file there, in the order in which they need each other."""
    program: Sequence[str]
    """What is started instead of an interpreter; empty where that is Python."""
    lease_s: float
    """It ends where it hears nothing for so long."""
    beat_s: float
    """Seconds between two signs of life from here."""


def packages(python: str) -> dict[str, str]:
    """Return the file of each package that a worker of this interpreter gets from here."""
    root = Path(__file__).parents[2]
    found = {name: str(root / name / "__init__.py") for name in _OURS}
    if python == sys.executable:
        return found
    specs = {name: importlib.util.find_spec(name) for name in _BROUGHT}
    return {name: str(spec.origin) for name, spec in specs.items() if spec is not None} | found


def _temporary_folder() -> Path:
    """Create the folder of one worker's temporary files: vendors' libraries leave copies of models in it.

    Raises:
        WorkerError: the system lets nothing be written.
    """
    try:
        return Path(tempfile.mkdtemp(prefix="cb-"))
    except OSError as error:
        raise WorkerError(
            f"a worker cannot be started: no folder for temporary files can be made ({error.strerror}). "
            "Free some space, or set TMPDIR to a folder that can be written."
        ) from error


def _kept_by_inductor() -> dict[str, str]:
    """Return Inductor's own default, which outlives a worker (torch._inductor.runtime.cache_dir_utils)."""
    if _INDUCTOR_VARIABLE in os.environ:
        return {}
    try:
        user = getpass.getuser()
    except (KeyError, ModuleNotFoundError, OSError):  # a container's user without a name
        user = f"uid_{os.getuid()}" if hasattr(os, "getuid") else "unknown_user"
    name = re.sub(r'[\\/:*?"<>|]', "_", user)
    return {_INDUCTOR_VARIABLE: str(Path(tempfile.gettempdir(), f"torchinductor_{name}"))}


def with_pipes(
    log: Path, command: Sequence[str], variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a program on this machine that is asked and answers through pipes; a log receives its complaints."""
    with log.open("ab") as file:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env={**os.environ, **(variables or {})},
            start_new_session=True,  # Ctrl-C reaches the parent only, which decides
        )


def _started(log: Path, command: Sequence[str], variables: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    """Start a process on this machine.

    Raises:
        WorkerError: the system starts no further process, or there is no such program.
    """
    try:
        return with_pipes(log, command, variables)
    except OSError as error:
        raise WorkerError(f"a worker cannot be started ({command[0]}: {error.strerror}).") from error


class Worker:
    """One child process; use it in ``with``: its end kills it and what it started, and deletes its temporary files."""

    def __init__(
        self,
        log: Path,
        python: str = sys.executable,
        preload: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        memory_limit_bytes: int | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Start the process.

        Args:
            log: receives all that the worker and its libraries print.
            python: interpreter to run it under.
            preload: modules to import before the first request; those that fail are imported again when needed.
            variables: environment variables beside this process's own.
            memory_limit_bytes: resident memory above which a request ends with the process; what the worker itself
                started is not counted.
            elsewhere: where it runs on another machine; its interpreter's path is then one there.

        Raises:
            WorkerError: there is no such interpreter, the system starts no further process, or temporary files cannot
                be written.
        """
        self.log, self.python, self.preload = log, python, tuple(preload)
        self.memory_limit_bytes = memory_limit_bytes
        log.parent.mkdir(parents=True, exist_ok=True)
        self.started_ns = time.perf_counter_ns()  # the clock of ``measure.clock``
        brought = dict(elsewhere.packages) if elsewhere else packages(python)
        command = [python, "-P", "-c", _BOOTSTRAP, json.dumps(brought), *preload]
        if elsewhere is not None and elsewhere.program:
            command = list(elsewhere.program)
        self._temporary: Path | None = None
        if elsewhere is None:
            self._temporary = _temporary_folder()
            own = dict.fromkeys((*_TEMPORARY_VARIABLES, SCRATCH_VARIABLE), str(self._temporary))
            try:
                self._process = _started(log, command, {**_kept_by_inductor(), **own, **(variables or {})})
            except BaseException:
                shutil.rmtree(self._temporary, ignore_errors=True)
                raise
        else:
            given = {**(variables or {}), LEASE_VARIABLE: str(elsewhere.lease_s)}
            self._process = elsewhere.start(log, command, given)
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._writing = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()
        if elsewhere is not None:
            threading.Thread(target=self._beat, args=(elsewhere.beat_s,), daemon=True).start()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def ask(self, question: Question[Answer], timeout_s: float) -> Answer:
        """Return the answer to a question; it may take so long beside the time for which it is to work.

        Raises:
            WorkerError: the process died, answered with garbage, or was killed because it used too much memory.
            WorkerTimeoutError: no answer in time; the process was killed.
            CrossBackendError: the subclass that the worker raised, with its text.
        """
        assert self._process.stdin is not None
        self._check_memory()
        try:
            self._write(json.dumps(request_of(question)).encode())
        except (OSError, ValueError):
            raise self._death() from None
        doing = question.title
        line = self._wait(doing, timeout_s + 3 * question.working_s)
        if not line:
            raise self._death()
        try:
            answer = json.loads(line)
            if "error" in answer:
                error = _error(answer["error"])
            else:
                return cast("Answer", from_json(answer_type(type(question)), answer["value"]))
        except Exception as cause:  # whatever a line of garbage leads to
            self.kill()
            raise WorkerError(
                f"the worker answered '{doing}' with something that is no answer; see {self.log}."
            ) from cause
        raise error

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def _beat(self, seconds: float) -> None:
        """Tell the worker now and then that somebody is there: by an empty line."""
        with contextlib.suppress(OSError, ValueError):  # it ended, or was closed
            while self.alive:
                self._write(b"")
                time.sleep(seconds)

    def _wait(self, doing: str, timeout_s: float) -> bytes:
        """Wait for a line, and look at the memory meanwhile where there is a limit."""
        end = time.monotonic() + min(timeout_s, threading.TIMEOUT_MAX)
        while True:
            left_s = max(0.0, end - time.monotonic())
            with contextlib.suppress(queue.Empty):
                return self._answers.get(timeout=left_s if self.memory_limit_bytes is None else min(left_s, _POLL_S))
            if time.monotonic() >= end:
                self.kill()
                raise WorkerTimeoutError(f"no answer to '{doing}' within {timeout_s:.0f} s; the worker was stopped.")
            self._check_memory()

    def _check_memory(self) -> None:
        if self.memory_limit_bytes is None:
            return
        import psutil

        with contextlib.suppress(psutil.Error):  # it is gone; the pipe shows that
            used = psutil.Process(self.pid).memory_info().rss
            if used > self.memory_limit_bytes:
                self.kill()
                raise WorkerError(
                    f"the worker used {used / 1e9:.1f} GB, more than its limit of "
                    f"{self.memory_limit_bytes / 1e9:.1f} GB, and was stopped."
                )

    def kill(self) -> None:
        """Stop the process and all that it started, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_WAIT_S)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        """Move answers from the pipe to the queue; an empty one stands for the end."""
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while (line := self._process.stdout.readline(_LONGEST_ANSWER_BYTES)).endswith(b"\n"):
                self._answers.put(line)
            if len(line) == _LONGEST_ANSWER_BYTES:  # a shorter one was cut off by the process' end
                self._answers.put(line)
        self._answers.put(b"")

    def _death(self) -> WorkerError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_WAIT_S)
        code = self._process.poll()
        if code is not None and code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"exited with status {code}"
        last = _full_disk(self.log.parent) or _last_line(self.log)
        return WorkerError(f"the worker {how}{': ' + last if last else ''} (log: {self.log})")


def _full_disk(folder: Path) -> str:
    """Return that a disk is full, or an empty text. Runtimes abort then, and last print a line of a C++ stack."""
    with contextlib.suppress(OSError):
        if shutil.disk_usage(folder).free < _ROOM_BYTES:
            return f"no space left on device: the disk of {folder} is full"
    return ""


def _last_line(path: Path) -> str:
    """Return the last line of a log that is not one of a C++ stack."""
    with contextlib.suppress(OSError):
        lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
        return next((line[:200] for line in reversed(lines) if not line.startswith("frame #")), "")
    return ""


def _error(row: dict[str, str]) -> CrossBackendError:
    kind = getattr(errors, row["type"], None)
    if kind is UnavailableError:
        return UnavailableError(str(row["reason"]), str(row["remedy"]))
    if not (isinstance(kind, type) and issubclass(kind, CrossBackendError)):
        kind = CrossBackendError
    error: CrossBackendError = kind(str(row["text"]))
    return error
