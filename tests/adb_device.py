"""A device that speaks adb's own protocol over TCP, to the real program adb. It is no phone.

A local ``sh`` runs what adb asks for, in a folder of this machine; programs in ``bin`` there stand for Android's
``getprop`` and ``dumpsys``.
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.needs import program

VERSION, LONGEST = 0x01000001, 1 << 18
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
"""Kinds of packets of the shell protocol."""
PIXEL = {
    "ro.build.version.release": "14",
    "ro.product.manufacturer": "Google",
    "ro.product.model": "Pixel 8",
    "ro.product.cpu.abi": {"aarch64": "arm64-v8a"}.get(platform.machine(), platform.machine()),
    "ro.soc.manufacturer": "Google",
    "ro.soc.model": "Tensor G3",
}


class Stream:
    """What adb opened: a shell or the copying of files."""

    def __init__(self, connection: Connection, there: int, here: int, service: str) -> None:
        self.connection, self.there, self.here = connection, there, here
        self.arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.may_write, self.writing = threading.Semaphore(0), threading.Lock()
        self.held, self.is_ended = b"", False
        self.process: subprocess.Popen[bytes] | None = None
        kind, _, words = service.partition(":")
        run = self.shell if kind.startswith("shell") else self.sync if kind == "sync" else self.refuse
        threading.Thread(target=self._guarded, args=(run, words), daemon=True).start()

    def _guarded(self, run, words: str) -> None:
        with contextlib.suppress(OSError, ValueError, EOFError):
            run(words)
        self.connection.send(b"CLSE", self.here, self.there)

    def refuse(self, _words: str) -> None:
        """Open nothing."""

    def accept(self) -> None:
        self.connection.send(b"OKAY", self.here, self.there)

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), LONGEST):
            self.connection.send(b"WRTE", self.here, self.there, data[at : at + LONGEST])
            self.may_write.acquire()
            if self.is_ended:
                self.may_write.release()  # for other writers
                raise EOFError

    def read(self, size: int) -> bytes:
        while len(self.held) < size:
            chunk = self.arrived.get()
            if not chunk:
                raise EOFError
            self.held += chunk
            self.connection.send(b"OKAY", self.here, self.there)
        taken, self.held = self.held[:size], self.held[size:]
        return taken

    def end(self) -> None:
        """As adbd does: the program's streams are closed, and it gets a signal."""
        self.is_ended = True
        self.arrived.put(b"")
        self.may_write.release()
        if self.process is not None:
            with contextlib.suppress(OSError):
                self.process.send_signal(signal.SIGHUP)

    def shell(self, command: str) -> None:
        device = self.connection.device
        self.process = process = subprocess.Popen(
            ["sh", "-c", command], cwd=device.folder, env=device.variables, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        device.started.append(process)
        self.accept()
        threading.Thread(target=self._feed, args=(process,), daemon=True).start()
        pumps = [
            threading.Thread(target=self._pump, args=(kind, pipe), daemon=True)
            for kind, pipe in ((STDOUT, process.stdout), (STDERR, process.stderr))
        ]
        for pump in pumps:
            pump.start()
        for pump in pumps:
            pump.join()
        code = process.wait()
        with self.writing:
            self.write(struct.pack("<BIB", EXIT, 1, code if code >= 0 else 128 - code))

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError):
            while True:
                kind, size = struct.unpack("<BI", self.read(5))
                data = self.read(size)
                if kind == CLOSE_STDIN:
                    break
                process.stdin.write(data)
                process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()
        with contextlib.suppress(EOFError):
            self.read(1)  # the end of the stream

    def _pump(self, kind: int, pipe) -> None:
        with contextlib.suppress(OSError, EOFError, ValueError):
            while chunk := os.read(pipe.fileno(), 1 << 15):
                with self.writing:
                    self.write(struct.pack("<BI", kind, len(chunk)) + chunk)
        pipe.close()

    def sync(self, _words: str) -> None:
        self.accept()
        while True:
            request, size = struct.unpack("<4sI", self.read(8))
            if request == b"QUIT":
                return
            path = self.read(size).decode()
            if request == b"STAT":
                with contextlib.suppress(OSError):
                    found = Path(path).stat()
                    self.write(struct.pack("<4sIII", b"STAT", found.st_mode, found.st_size, int(found.st_mtime)))
                    continue
                self.write(struct.pack("<4sIII", b"STAT", 0, 0, 0))
            elif request == b"SEND":
                self._receive(path.rpartition(",")[0])
            else:
                return

    def _receive(self, path: str) -> None:
        why = b""
        try:
            file = Path(path).open("wb")  # noqa: SIM115
        except OSError as error:
            why, file = str(error.strerror).encode(), Path(os.devnull).open("wb")  # noqa: SIM115
        with file:
            while True:
                kind, size = struct.unpack("<4sI", self.read(8))
                if kind == b"DONE":
                    break
                file.write(self.read(size))
        self.write(struct.pack("<4sI", b"FAIL" if why else b"OKAY", len(why)) + why)


class Connection(threading.Thread):
    """One connection of adb's server."""

    def __init__(self, device: Device, sock: socket.socket) -> None:
        super().__init__(daemon=True)
        self.device, self.sock = device, sock
        self.streams: dict[int, Stream] = {}
        self.sending = threading.Lock()

    def send(self, command: bytes, first: int, second: int, data: bytes = b"") -> None:
        number = struct.unpack("<I", command)[0]
        head = struct.pack("<4sIIIII", command, first, second, len(data), sum(data) & 0xFFFFFFFF, number ^ 0xFFFFFFFF)
        with self.sending, contextlib.suppress(OSError):
            self.sock.sendall(head + data)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            chunk = self.sock.recv(size - len(found))
            if not chunk:
                raise EOFError
            found += chunk
        return found

    def run(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                command, first, second, size = struct.unpack("<4sIII8x", self._exactly(24))
                self.handle(command, first, second, self._exactly(size))
        self.sock.close()
        for stream in list(self.streams.values()):
            stream.end()

    def handle(self, command: bytes, first: int, second: int, data: bytes) -> None:
        if command in {b"CNXN", b"AUTH"} and self.device.state == "unauthorized":
            self.send(b"AUTH", 1, 0, b"x" * 20)
        elif command == b"CNXN" and self.device.state == "offline":
            return
        elif command == b"CNXN":
            banner = f"device::ro.product.name=none;ro.product.model=none;features={self.device.features}"
            self.send(b"CNXN", VERSION, LONGEST, banner.encode())
        elif command == b"OPEN":
            here = len(self.streams) + 1
            self.streams[here] = Stream(self, first, here, data.rstrip(b"\0").decode())
        elif second in self.streams:
            stream = self.streams[second]
            if command == b"WRTE":
                stream.arrived.put(data)
            elif command == b"OKAY":
                stream.may_write.release()
            elif command == b"CLSE":
                stream.end()


class Device:
    """One device; adb reaches it as ``127.0.0.1:PORT``."""

    def __init__(self, state: str = "device", features: str = "shell_v2,cmd") -> None:
        self.state, self.features = state, features
        self.folder = Path(tempfile.mkdtemp(prefix="phone-"))
        (self.folder / "bin").mkdir()
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        self.variables = {"PATH": path, "TMPDIR": str(self.folder / "tmp"), "LANG": "C.UTF-8"}
        (self.folder / "tmp").mkdir()
        self.connections: list[Connection] = []
        self.started: list[subprocess.Popen[bytes]] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.serial = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.connections.append(Connection(self, self._listening.accept()[0]))
                self.connections[-1].start()

    @property
    def files(self) -> list[str]:
        """What lies in its temporary folder."""
        while True:
            try:
                return sorted(str(path.relative_to(self.folder / "tmp")) for path in (self.folder / "tmp").rglob("*"))
            except FileNotFoundError:  # a folder was deleted while it was walked
                continue

    @property
    def running(self) -> list[str]:
        """The commands that run there."""
        streams = [stream for connection in self.connections for stream in list(connection.streams.values())]
        return [str(s.process.args[2]) for s in streams if s.process is not None and s.process.poll() is None]

    def has(self, name: str, script: str) -> None:
        """Put a program there."""
        (self.folder / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.folder / "bin" / name).chmod(0o755)

    def is_android(self, properties: dict[str, str] = PIXEL) -> None:
        """Answer ``getprop`` as Android does."""
        cases = "".join(f"{name}) echo '{value}' ;;\n" for name, value in properties.items())
        self.has("getprop", f'case "$1" in\n{cases}esac')

    def unplug(self) -> None:
        """Pull the cable: nothing listens any more."""
        self._listening.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.unplug()
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def adb_server(folder: Path) -> Iterator[dict[str, str]]:
    """Give the variables under which adb has a server of its own, with keys of its own; it ends with the context."""
    adb = program("adb")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {"ANDROID_ADB_SERVER_PORT": str(port), "HOME": str(folder), "ANDROID_USER_HOME": str(folder)}
    subprocess.run([adb, "start-server"], env={**os.environ, **variables}, capture_output=True, check=True)
    try:
        yield variables
    finally:
        subprocess.run([adb, "kill-server"], env={**os.environ, **variables}, capture_output=True, check=False)
