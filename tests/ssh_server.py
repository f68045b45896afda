"""A real OpenSSH server on loopback with keys of its own, and what a client needs to reach it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.needs import program

CONFIGURATION = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
StrictModes no
UsePAM no
PidFile {folder}/pid
SetEnv XDG_CACHE_HOME={folder}/cache
"""
CLIENT = """
Host there
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile /dev/null
"""


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    folder: Path
    """Holds the client's ``config``, ``known`` hosts and ``key``."""
    port: int

    @property
    def cache(self) -> Path:
        """What lies there."""
        return self.folder / "cache" / "cross-backend" / "there"

    @property
    def command(self) -> str:
        """The client with its configuration, for ``CROSS_BACKEND_SSH``; the host is called ``there``."""
        return f"ssh -F {self.folder / 'config'}"


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Start a server, which ends with the context."""
    daemon = program("sshd")
    folder = Path(tempfile.mkdtemp(prefix="sshd-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "authorized").write_text((folder / "key.pub").read_text())
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "server").write_text(CONFIGURATION.format(port=port, folder=folder))
    (folder / "config").write_text(CLIENT.format(port=port, folder=folder))
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where it gives up its rights
    process = subprocess.Popen([daemon, "-D", "-f", folder / "server", "-E", folder / "log"], stdin=subprocess.DEVNULL)
    try:
        _wait(port, folder)
        yield Server(folder, port)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(port: int, folder: Path) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise AssertionError((folder / "log").read_text())
