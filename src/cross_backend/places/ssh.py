"""A machine over the system's own ssh: its keys, configuration, jump hosts and agents; one shared connection."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import IO

from cross_backend.errors import PlaceError
from cross_backend.foreign_text import plain
from cross_backend.places.address import Address
from cross_backend.places.piped import connects, let_end, piped
from cross_backend.places.shell import LONGEST_ANSWER, ShellPlace, copy_s
from cross_backend.worker.process import with_pipes

VARIABLE = "CROSS_BACKEND_SSH"
"""Environment variable: the command instead of ``ssh``, with options: ``ssh -F FILE``."""
CONNECT_S = 15
"""Longest wait for the connection, of ssh itself; seconds."""
LEAVE_S = 5.0
"""Longest wait for ssh to end by itself."""
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
        master = [*self._command("-M", "-o", "ControlPersist=no", *alive), "echo connected; exec cat"]
        self._connection = with_pipes(self._log, master)
        if not connects(self._connection, 2 * CONNECT_S, LONGEST_ANSWER):
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

    def send(self, here: Path, there: str) -> None:  # noqa: D102  the declaration says it
        with here.open("rb") as file:
            self._shell(f"cat > {shlex.quote(there)}", file, copy_s(here.stat().st_size), LONGEST_ANSWER)

    def _words(self, command: str) -> list[str]:
        return [*self._command(), f"sh -c {shlex.quote(command)}"]  # the login shell may be another one

    def _shell(self, command: str, given: IO[bytes] | int, patience_s: float, most_bytes: int) -> bytes:
        done = piped(self.name, self._words(command), given, patience_s, most_bytes)
        if done.status == 0:
            return done.printed
        raise PlaceError(self._why("failed", done.complaint))

    def close(self) -> None:  # noqa: D102
        if self._connection is not None:
            if self._connection.poll() is None and hasattr(self, "_token"):
                with contextlib.suppress(PlaceError):
                    self.run(f"rm -rf {shlex.quote(self.scratch)}\n")
            let_end(self._connection, LEAVE_S)
        shutil.rmtree(self._folder, ignore_errors=True)
