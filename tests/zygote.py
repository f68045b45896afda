"""Zygote: a process that has imported torch and the compilers, and forks a command, or a worker, in milliseconds.

A command of the end-to-end tests needs a process of its own, and so does each of its workers; starting them costs
seconds of imports, the same ones a thousand times. Here every one is still a process of its own, with its own
environment, folder, signals, streams and exit status; only ``exec`` and the imports are left out. What is about the
time before ``main``, memory or cold starts uses new processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

ROOT = Path(__file__).parents[1]
GARBAGE = (100_000, 20, 100)
"""How rarely the collector runs in processes that hold torch."""
_LONGEST = 1 << 17
"""Of a request, which holds an environment; bytes."""
PRELOADED = (
    *("torch", "torch.export", "torch.export._trace", "torch._dynamo", "numpy.ma", "psutil", "platformdirs"),
    *("sqlalchemy.dialects.sqlite", "rich.progress", "rich.console", "cattrs", "pydantic.dataclasses"),
    *("executorch.extension.pybindings._C", "executorch.exir", "executorch.devtools.inspector"),
    *("executorch.backends.xnnpack.partition.xnnpack_partitioner", "onnxscript", "atalla.files.pt2"),
    *("onnxscript.function_libs.torch_lib.ops", "torch.onnx._internal.exporter._core"),
)
"""What commands import, beside the whole of cross_backend. None of it starts a thread, which a fork would lose, but for
OpenBLAS, which starts its own anew.
"""


class Zygote:
    """The test's side: starts the process, and asks it for forks."""

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

    def fork(self, request: dict[str, Any], ends: Sequence[int]) -> int:
        """Fork what becomes a child of this process; return its process id.

        The zygote forks twice, and orphans go to their nearest ancestor that asked for them.
        """
        with _adopting():
            socket.send_fds(self._socket, [json.dumps(request).encode()], ends)
            answer = self._socket.recv(_LONGEST)
        assert answer, "the zygote died; see its log"
        return int(answer)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        self._socket.close()


@contextlib.contextmanager
def _adopting() -> Iterator[None]:
    """Let processes below this one whose parent ends become its children (``man 2const PR_SET_CHILD_SUBREAPER``)."""
    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(36, 0, 0, 0, 0)


class Forked(subprocess.Popen[Any]):
    """Stands in for ``Popen``: a command, worker or script that begins as a fork, of the zygote or of this process.

    Its ``preexec_fn`` is a ``partial`` of ``resource.setrlimit``, or none.
    """

    kept: frozenset[int] = frozenset()
    """File descriptors that libraries hold, and that a fork keeps."""
    zygote: Callable[[], Zygote] | None = None

    def _execute_child(  # type: ignore[override]
        self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *rest: Any
    ) -> None:
        sys.audit("subprocess.Popen", executable, args, cwd, env)
        pipes = rest[3:9]
        ends = [end if end != -1 else number for number, end in enumerate((pipes[0], pipes[3], pipes[5]))]
        request = {"words": list(args), "environment": dict(env or os.environ), "cwd": str(cwd or Path.cwd())}
        request["leads"] = rest[14]  # start_new_session
        if preexec_fn is not None:
            assert preexec_fn.func.__name__ == "setrlimit", "a fork can be given a limit, and nothing else"
            request["limit"] = preexec_fn.args
        self.pid = Forked.zygote().fork(request, ends) if Forked.zygote else _fork(request, ends)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


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


def _become(request: dict[str, Any], ends: Sequence[int]) -> NoReturn:
    status = 1
    try:
        os.chdir(request["cwd"])
        _enter(request["environment"], ends)
        if "limit" in request:
            import resource

            kind, most = request["limit"]
            resource.setrlimit(kind, tuple(most))
        status = _main(request["words"][1:], request["cwd"])
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


def _main(words: list[str], cwd: str) -> int:
    """Be what these words of Python's command line ask for; return the exit status."""
    from cross_backend.worker.process import _BOOTSTRAP

    if _BOOTSTRAP in words:
        sys.argv = ["-c", *words[words.index(_BOOTSTRAP) + 1 :]]
        from cross_backend.worker.child import main as serve_questions

        serve_questions()
    sys.path[:0] = [cwd, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.stdin, sys.stdout = (os.fdopen(fd, mode, encoding="utf-8", closefd=False) for fd, mode in enumerate("rw"))
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.modules["__main__"] = ModuleType("__main__")
        exec(words[1], vars(sys.modules["__main__"]))
        return 0
    assert words[:2] == ["-m", "cross_backend"], words
    sys.argv = ["cross-backend", *words[2:]]
    from cross_backend.cli import main

    return main()


def _status_of(error: SystemExit) -> int:
    if isinstance(error.code, str):
        print(error.code, file=sys.stderr)
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
    tempfile.tempdir = None
    sys.dont_write_bytecode = bool(environment.get("PYTHONDONTWRITEBYTECODE"))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _descriptors() -> set[int]:
    return {int(path.name) for path in Path("/proc/self/fd").iterdir()}


def serve(requests: socket.socket) -> None:
    """Fork one after the other; answer with a process id."""
    sys.path.insert(0, str(ROOT))
    gc.set_threshold(*GARBAGE)
    import cross_backend

    ours = {one.name for one in pkgutil.walk_packages(cross_backend.__path__, "cross_backend.")}
    for name in (*PRELOADED, *sorted(ours - {"cross_backend.__main__"})):
        importlib.import_module(name)
    from cross_backend.worker import process as workers
    from tests.vendors import quicken_torch

    quicken_torch()
    assert threading.active_count() == 1, "a fork would lose threads"
    workers._started = start_worker
    gc.freeze()
    Forked.kept = frozenset(_descriptors() - {requests.fileno()})
    while (received := socket.recv_fds(requests, _LONGEST, 3))[0]:
        request, ends = json.loads(received[0]), received[1]
        requests.send(_orphan(request, ends))
        for end in ends:
            os.close(end)


def _fork(request: dict[str, Any], ends: Sequence[int]) -> int:
    """Fork; a fork that leads a group, which stands for a session, does so before its parent can want to kill it."""
    warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)  # Python's, from 3.12 on, of OpenBLAS' own threads
    pid = os.fork() or _become(request, ends)
    if request["leads"]:
        os.setpgid(pid, pid)
    return pid


def _orphan(request: dict[str, Any], ends: Sequence[int]) -> bytes:
    """Fork twice; return the inner one's process id when its parent is gone."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, str(_fork(request, ends)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    answer = os.read(read, 32)
    os.close(read)
    os.close(write)
    return answer


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
