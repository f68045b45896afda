"""Zygote: a process that has imported torch and the compilers, and forks a command, or a worker, in milliseconds.

A command of the end-to-end tests needs a process of its own, and so does each of its workers; starting them costs
seconds of imports, the same ones a thousand times. Here every one is still a process of its own, with its own
environment, folder, signals, streams and exit status; only ``exec`` and the imports are left out. What is about the
time before ``main``, killed commands, memory or cold starts uses new processes: ``cli(…, fresh=True)`` and ``start``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
COMMANDS = ("backends", "bundle", "compare", "doctor", "export", "explain", "inspect", "models", "run", "study")
PRELOADED = (
    *("torch", "torch.export", "torch._dynamo", "sqlalchemy.dialects.sqlite"),
    *("rich.progress", "rich.console", "cross_backend.worker", "cross_backend.api", "cross_backend.lowering"),
    *("executorch.extension.pybindings._C", "executorch.exir"),
    *("executorch.backends.xnnpack.partition.xnnpack_partitioner", "onnxscript", "torch.onnx._internal.exporter._core"),
    *(f"cross_backend.cli.{name}" for name in COMMANDS),
)
"""None of these starts a thread, which a fork would lose, but for OpenBLAS, which starts its own anew."""


class Zygote:
    """The test's side: starts the process, and asks it for commands."""

    def __init__(self, log: Path) -> None:
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
                start_new_session=True,
            )

    def run(
        self, arguments: list[str], environment: dict[str, str], cwd: Path, folder: Path, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its streams lie in a folder meanwhile.

        Raises:
            subprocess.TimeoutExpired: it did not end in time, and was killed.
        """
        streams = [folder / "stdout", folder / "stderr"]
        pid = self._ask(arguments=arguments, environment=environment, cwd=str(cwd), streams=list(map(str, streams)))
        killer = threading.Timer(timeout_s, os.kill, (pid, signal.SIGKILL))
        killer.start()
        status = self._answer()
        in_time = killer.is_alive()
        killer.cancel()
        out, err = (path.read_text(encoding="utf-8") for path in streams)
        if not in_time:
            raise subprocess.TimeoutExpired(arguments, timeout_s, out, err)
        return subprocess.CompletedProcess(arguments, status, out, err)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, **request: Any) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the zygote died; see its log"
        return int(line)


class Forked(subprocess.Popen[bytes]):
    """A worker that begins as a fork of the command that asks for it."""

    kept: frozenset[int] = frozenset()
    """File descriptors that libraries hold, and that a fork keeps."""

    def _execute_child(  # type: ignore[override]
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        p2cread, _, _, c2pwrite, _, errwrite = rest[3:9]
        self.pid = os.fork()
        if self.pid == 0:
            _become_worker(args, env, (p2cread, c2pwrite, errwrite))
        self._child_created = True
        for end in (p2cread, c2pwrite):
            os.close(end)


def _started(log: Path, command: list[str], variables: dict[str, str] | None) -> subprocess.Popen[bytes]:
    """Stand in for ``cross_backend.workers._started``: fork where the interpreter is this one."""
    kind = Forked if command[0] == sys.executable else subprocess.Popen
    with log.open("ab") as file:
        return kind(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
        )


def _become_worker(args: list[str], environment: dict[str, str], ends: tuple[int, int, int]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        _enter(environment, ends)
        sys.argv = ["-c", *args[4:]]
        from cross_backend.worker import main

        main()
    except SystemExit as error:
        status = _status_of(error)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _become_command(request: dict[str, Any]) -> NoReturn:
    status = 1
    try:
        os.chdir(request["cwd"])
        null = os.open(os.devnull, os.O_RDONLY)
        out, err = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in request["streams"])
        _enter(request["environment"], (null, out, err))
        sys.argv = ["cross-backend", *request["arguments"]]
        sys.path[:0] = [request["cwd"], *filter(None, request["environment"].get("PYTHONPATH", "").split(os.pathsep))]
        sys.stdin, sys.stdout = (os.fdopen(fd, mode, encoding="utf-8", closefd=False) for fd, mode in enumerate("rw"))
        sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
        from cross_backend.cli import main

        status = main()
    except SystemExit as error:
        status = _status_of(error)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def _status_of(error: SystemExit) -> int:
    return error.code if isinstance(error.code, int) else int(error.code is not None)


def _enter(environment: dict[str, str], streams: tuple[int, int, int]) -> None:
    """Take on what a new process gets: streams, environment, default signals, and no descriptor of anybody else."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for number in _descriptors() - Forked.kept - {0, 1, 2}:
        with contextlib.suppress(OSError):
            os.close(number)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.unfreeze()


def _descriptors() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def serve() -> None:
    """Fork a command a request, one after the other; answer with its process id, and at its end with its status."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path.insert(0, str(ROOT))
    for name in PRELOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork would lose threads"
    from cross_backend import workers

    workers._started = _started
    gc.freeze()
    Forked.kept = frozenset(_descriptors() - {requests.fileno(), answers.fileno()})
    for line in requests:
        pid = os.fork()
        if pid == 0:
            _become_command(json.loads(line))
        print(pid, file=answers, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


if __name__ == "__main__":
    serve()
