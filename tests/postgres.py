"""A real PostgreSQL of one's own: a cluster in a temporary folder, reached over a socket in it, gone afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

USER = "tester"
OPTIONS = "-c listen_addresses= -c fsync=off -c full_page_writes=off -c max_connections=50"
"""The clusters need not survive a power cut."""


def programs() -> Path:
    """Give the folder of PostgreSQL's server programs; Debian keeps them off the path.

    Raises:
        AssertionError: they are not installed.
    """
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    folders = sorted((path.parent for path in installed), key=lambda path: int(re.findall(r"\d+", str(path))[-1]))
    assert folders, "these tests need a real PostgreSQL; run: apt-get install postgresql"
    return folders[-1]


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """Start a cluster; give the address of its database ``postgres``, where user ``tester`` may do everything."""
    programs_folder = programs()
    # Not under pytest's folder: a socket's path may have 107 bytes, and PostgreSQL refuses to run as root.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    user = {"user": "postgres", "group": "postgres"} if os.getuid() == 0 else {}
    if user:
        shutil.chown(folder, "postgres", "postgres")

    def run(name: str, *arguments: str) -> None:
        done = subprocess.run(
            [programs_folder / name, "-D", folder / "data", *arguments],
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
