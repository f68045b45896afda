"""Zygote: a process that has imported torch and the compilers, and forks a command, or a worker, in milliseconds.

A command of the end-to-end tests needs a process of its own, and so does each of its workers; starting them costs
seconds of imports, the same ones a thousand times. Here every one is still a process of its own, with its own
environment, folder, signals, streams and exit status; only ``exec`` and the imports are left out. What is about the
time before ``main``, killed commands, memory or cold starts uses new processes: ``cli(…, fresh=True)`` and ``start``.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
GARBAGE = (100_000, 20, 100)
"""How rarely the collector runs in processes that hold torch."""
_LONGEST = 1 << 17
"""Of a request, which holds an environment; bytes."""
COMMANDS = ("backends", "bundle", "compare", "doctor", "export", "explain", "inspect", "models", "run", "study")
PRELOADED = (
    *("torch", "torch.export", "torch._dynamo", "sqlalchemy.dialects.sqlite"),
    *("rich.progress", "rich.console", "cattrs", "cross_backend.api", "cross_backend.lowering.lower"),
    *(f"cross_backend.{name}" for name in ("worker.child", "bench.worker_bench", "instruments.table")),
    *("executorch.extension.pybindings._C", "executorch.exir"),
    *("executorch.backends.xnnpack.partition.xnnpack_partitioner", "onnxscript", "torch.onnx._internal.exporter._core"),
    *(f"cross_backend.cli.{name}" for name in COMMANDS),
)
"""None of these starts a thread, which a fork would lose, but for OpenBLAS, which starts its own anew."""


class Zygote:
    """The test's side: starts the process, and asks it for commands and workers."""

    def __init__(self, log: Path) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with log.open("wb") as file, theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                pass_fds=[theirs.fileno()],
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
        with contextlib.ExitStack() as stack:
            ends = [stack.enter_context(open(os.devnull, "rb")), *(stack.enter_context(f.open("wb")) for f in streams)]  # noqa: PTH123
            pid = self._ask([end.fileno() for end in ends], arguments=arguments, environment=environment, cwd=str(cwd))
        killer = threading.Timer(timeout_s, os.kill, (pid, signal.SIGKILL))
        killer.start()
        status = self._answer()
        in_time = killer.is_alive()
        killer.cancel()
        out, err = (path.read_text(encoding="utf-8") for path in streams)
        if not in_time:
            raise subprocess.TimeoutExpired(arguments, timeout_s, out, err)
        return subprocess.CompletedProcess(arguments, status, out, err)

    def fork_worker(self, arguments: list[str], environment: dict[str, str], ends: Sequence[int]) -> int:
        """Fork a worker that is a child of this process; return its process id.

        The zygote forks twice, and orphans go to their nearest ancestor that asked for them.
        """
        with _adopting():
            return self._ask(ends, worker=arguments, environment=environment)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._socket.close()

    def _ask(self, ends: Sequence[int], **request: Any) -> int:
        socket.send_fds(self._socket, [json.dumps(request).encode()], ends)
        return self._answer()

    def _answer(self) -> int:
        answer = self._socket.recv(_LONGEST)
        assert answer, "the zygote died; see its log"
        return int(answer)


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Let processes below this one whose parent ends become its children (``man 2const PR_SET_CHILD_SUBREAPER``)."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(36, 0, 0, 0, 0)


class Forked(subprocess.Popen[bytes]):
    """A worker that begins as a fork, of the zygote or else of this process."""

    kept: frozenset[int] = frozenset()
    """File descriptors that libraries hold, and that a fork keeps."""
    zygote: Zygote | None = None

    def _execute_child(  # type: ignore[override]
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        p2cread, _, _, c2pwrite, _, errwrite = rest[3:9]
        ends = (p2cread, c2pwrite, errwrite)
        self.pid = self.zygote.fork_worker(list(args), dict(env), ends) if self.zygote else os.fork()
        if self.pid == 0:
            _become_worker(args, env, ends)
        self._child_created = True
        for end in (p2cread, c2pwrite):
            os.close(end)


def start_worker(log: Path, command: list[str], variables: dict[str, str] | None) -> subprocess.Popen[bytes]:
    """Stand in for ``cross_backend.worker.process._started``: fork where the interpreter is this one."""
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


def _become_worker(args: Sequence[str], environment: dict[str, str], ends: Sequence[int]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        _enter(environment, ends)
        sys.argv = ["-c", *args[4:]]
        from cross_backend.worker.child import main

        main()
    except SystemExit as error:
        status = _status_of(error)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(status)


def _become_command(request: dict[str, Any], ends: Sequence[int]) -> NoReturn:
    status = 1
    try:
        os.chdir(request["cwd"])
        _enter(request["environment"], ends)
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


def _enter(environment: dict[str, str], streams: Sequence[int]) -> None:
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


def _descriptors() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def serve(requests: socket.socket) -> None:
    """Fork one after the other; answer with a process id, and at a command's end with its status."""
    sys.path.insert(0, str(ROOT))
    for name in PRELOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork would lose threads"
    from cross_backend.worker import process as workers

    workers._started = start_worker
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    Forked.kept = frozenset(_descriptors() - {requests.fileno()})
    while (received := socket.recv_fds(requests, _LONGEST, 3))[0]:
        request, ends = json.loads(received[0]), received[1]
        if "worker" in request:
            requests.send(_orphan(partial(_become_worker, request["worker"], request["environment"], ends)))
        else:
            pid = _fork(partial(_become_command, request, ends))
            requests.send(str(pid).encode())
            requests.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
        for end in ends:
            os.close(end)


def _fork(become: Callable[[], NoReturn]) -> int:
    return os.fork() or become()


def _orphan(become: Callable[[], NoReturn]) -> bytes:
    """Fork twice; return the inner one's process id when its parent is gone."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, str(_fork(become)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    answer = os.read(read, 32)
    os.close(read)
    os.close(write)
    return answer


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
