"""A machine over the system's own ssh: its keys, configuration, jump hosts and agents; one shared connection."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from cross_backend.errors import PlaceError
from cross_backend.foreign_text import plain
from cross_backend.places.address import Address
from cross_backend.places.piped import connects, end, piped
from cross_backend.places.shell import LONGEST_ANSWER, ShellPlace

VARIABLE = "CROSS_BACKEND_SSH"
"""Environment variable: the command instead of ``ssh``, with options: ``ssh -F FILE``."""
CONNECT_S = 15
"""Longest wait for the connection, of ssh itself; seconds."""
PATIENCE_S = 120.0
"""Longest wait for a short command there."""
SLOWEST = 50_000
"""Bytes a second below which a copy is given up."""
_FIXED = ("BatchMode=yes", "RemoteCommand=none", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no")
"""What of the user's configuration is for sessions of theirs."""
_ALIVE = ("ServerAliveInterval=5", "ServerAliveCountMax=4")
_REASONS = (
    (r"Could not resolve hostname", "its name is unknown. Check the spelling and your network"),
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "its host key changed. If that is expected: ssh-keygen -R HOST"),
    (r"Host key verification failed", "its host key is not known here. Connect once by hand and check it: ssh HOST"),
    (r"Permission denied", "it refused your key. Add it: ssh-copy-id HOST, or load it: ssh-add"),
    (r"Connection refused", "nothing listens on that port. Start its ssh server, or give the port: ssh://HOST:PORT"),
    (r"timed out|Operation timed out", "it does not answer. Check that it is awake and reachable"),
    (r"No route to host|Network is unreachable", "no network leads to it"),
    (r"Too many authentication failures", "your agent offered too many keys. Name one in ~/.ssh/config: IdentityFile"),
    (r"[Nn]o space left", "its disk is full. Delete files there"),
)
"""What ssh says → why it failed and what to do."""


class SshPlace(ShellPlace):
    """One connection, which programs and copies share."""

    def __init__(self, address: Address) -> None:
        """Connect.

        Raises:
            PlaceError: as it says.
        """
        super().__init__(str(address))
        self._ssh = shlex.split(os.environ.get(VARIABLE, "ssh"))
        if not self._ssh or shutil.which(self._ssh[0]) is None:
            raise PlaceError(f"{self.name} needs the program ssh. Install OpenSSH's client.")
        self._address = address
        self._folder = Path(tempfile.mkdtemp(prefix="cb-"))
        self._log = self._folder / "log"
        self._master: subprocess.Popen[bytes] | None = None
        try:
            self._connect()
            self.begin(secrets.token_hex(8))
        except BaseException:
            self.close()
            raise

    def _command(self, *options: str) -> list[str]:
        port = [] if self._address.port is None else ["-p", str(self._address.port)]
        fixed = (*_FIXED, *(() if "-M" in options else ("ControlMaster=no",)))
        shared = ["-S", str(self._folder / "c"), "-T", *(word for option in fixed for word in ("-o", option))]
        return [*self._ssh, *shared, *port, *options, "--", self._address.host.replace("[", "").replace("]", "")]

    def _connect(self) -> None:
        """Start the shared connection; it lives as long as its standard input, so no longer than this process."""
        alive = [word for option in (*_ALIVE, f"ConnectTimeout={CONNECT_S}") for word in ("-o", option)]
        with self._log.open("wb") as log:
            self._master = subprocess.Popen(
                [*self._command("-M", "-o", "ControlPersist=no", *alive), "echo connected; exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        if not connects(self._master, 2 * CONNECT_S, LONGEST_ANSWER):
            raise PlaceError(self._why("cannot be reached"))

    def _why(self, failed: str, said: str = "") -> str:
        """Return an error: what ssh or the far side said, and what to do."""
        with contextlib.suppress(OSError):
            said = said or self._log.read_text(errors="replace")
        host = self._address.host
        for pattern, reason in _REASONS:
            if re.search(pattern, said):
                return f"{self.name}: {reason.replace('HOST', host)}."
        lines = [line for line in said.splitlines() if line.strip()]
        last = plain(lines[-1].strip())[:200] if lines else "no answer"
        return f"{self.name} {failed} ({last})."

    def lost(self) -> str | None:  # noqa: D102  the declaration says it
        if self._master is None or self._master.poll() is None:
            return None
        return f"the connection to {self.name} broke"

    def run(self, script: str) -> str:  # noqa: D102
        with tempfile.TemporaryFile() as text:
            text.write(script.encode())
            text.seek(0)
            return self._piped("sh -s", text, PATIENCE_S, LONGEST_ANSWER).decode(errors="replace")

    def send(self, here: Path, there: str) -> None:  # noqa: D102
        patience_s = PATIENCE_S + here.stat().st_size / SLOWEST
        with here.open("rb") as file:
            self._piped(f"sh -c {shlex.quote(f'cat > {shlex.quote(there)}')}", file, patience_s, LONGEST_ANSWER)

    def pull(self, there: str, here: Path, most_bytes: int) -> None:  # noqa: D102
        patience_s = PATIENCE_S + most_bytes / SLOWEST
        command = f"sh -c {shlex.quote(f'cat {shlex.quote(there)}')}"
        with Path(os.devnull).open("rb") as nothing:
            here.write_bytes(self._piped(command, nothing, patience_s, most_bytes))

    def _piped(self, command: str, given: IO[bytes], patience_s: float, most_bytes: int) -> bytes:
        """Run a command there with a file as its standard input; return what it prints, of bounded length and time."""
        done = piped(self.name, [*self._command(), command], given, patience_s, most_bytes)
        if done.status == 0:
            return done.printed
        raise PlaceError(self._why("failed", done.complaint))

    def start(  # noqa: D102
        self, log: Path, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        set_there = [f"{key}={value}" for key, value in (variables or {}).items()]
        script = f"exec env {shlex.join([*set_there, *command])}"
        with log.open("ab") as file:
            return subprocess.Popen(
                [*self._command(), f"sh -c {shlex.quote(script)}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )

    def close(self) -> None:  # noqa: D102
        if self._master is not None and self._master.poll() is None:
            if hasattr(self, "_token"):
                with contextlib.suppress(PlaceError):
                    self.run(f"rm -rf {shlex.quote(self.scratch)}\n")
            assert self._master.stdin is not None
            with contextlib.suppress(OSError):
                self._master.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._master.wait(5)
        if self._master is not None:
            end(self._master)
        shutil.rmtree(self._folder, ignore_errors=True)
