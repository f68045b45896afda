"""Shell: what is done at a place by its own POSIX shell: files by digest, folders of them, facts."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import tempfile
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from cross_backend.artifact import digest_path
from cross_backend.errors import PlaceError
from cross_backend.foreign_text import plain
from cross_backend.places.place import Place
from cross_backend.worker.process import with_pipes

PATIENCE_S = 120.0
"""Longest wait for a short command there."""
SLOWEST = 50_000
"""Bytes a second below which a copy is given up."""
LONGEST_ANSWER = 1 << 20
"""Of a command there; bytes."""
_BEGIN = r"""
umask 077
root=ROOT
mkdir -p "$root/blobs" "$root/trees" "$root/scratch" || exit 1
find "$root/scratch" -mindepth 1 -maxdepth 1 -mtime +1 -exec rm -rf {} + 2>/dev/null
find "$root/blobs" -name '*.part' -mtime +1 -exec rm -f {} + 2>/dev/null
mkdir "$root/scratch/TOKEN" || exit 1
echo "root=$root"
echo "system=$(uname -s)"
echo "release=$(uname -r)"
echo "architecture=$(uname -m)"
echo "free_kib=$(df -Pk "$root" 2>/dev/null | awk 'NR == 2 {print $4}')"
echo "load=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null)"
"""
_NAME = re.compile(r"[0-9a-f]{64}")
ROOM = 16 << 20
"""Bytes that stay free there."""


def copy_s(size_bytes: int) -> float:
    """Return the longest wait for the copy of a file; seconds."""
    return PATIENCE_S + size_bytes / SLOWEST


class ShellPlace(Place):
    """A place with a POSIX shell; subclasses say how it is reached."""

    root_expression = '"${XDG_CACHE_HOME:-$HOME/.cache}/cross-backend/there"'
    """Where files lie there, as its shell reads it."""
    _connection: subprocess.Popen[bytes] | None = None
    """Process on this machine that lives as long as the connection."""

    def begin(self, token: str) -> None:
        """Make the folders there, and learn what the place is.

        Args:
            token: name of the scratch folder, hexadecimal digits.
        """
        told = self.run(_BEGIN.replace("ROOT", self.root_expression).replace("TOKEN", token))
        self._facts = dict(line.split("=", 1) for line in told.splitlines() if "=" in line)
        if not self._facts.get("root", "").startswith("/"):
            raise PlaceError(f"{self.name} cannot make its folder: {plain(told[:200]) or 'no answer'}.")
        self._there: set[str] = set()
        self._token = token

    @property
    def root(self) -> str:
        """Folder there that holds all of ours."""
        return self._facts["root"]

    @property
    def scratch(self) -> str:  # noqa: D102  the declaration says it
        return f"{self.root}/scratch/{self._token}"

    @property
    def facts(self) -> Mapping[str, str]:  # noqa: D102
        return self._facts

    def lost(self) -> str | None:  # noqa: D102
        if self._connection is None or self._connection.poll() is None:
            return None
        return f"the connection to {self.name} broke"

    def run(self, script: str, patience_s: float = PATIENCE_S) -> str:
        """Run a script in the shell there; return what it prints.

        Raises:
            PlaceError: it fails, says more than :data:`LONGEST_ANSWER` bytes, or the place is not reached.
        """
        with tempfile.TemporaryFile() as text:
            text.write(script.encode())
            text.seek(0)
            return self._shell("sh -s", text, patience_s, LONGEST_ANSWER).decode(errors="replace")

    def start(  # noqa: D102
        self, log: Path, command: Sequence[str], variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        set_there = [f"{key}={value}" for key, value in (variables or {}).items()]
        return with_pipes(log, self._words(f"exec env {shlex.join([*set_there, *command])}"))

    def pull(self, there: str, here: Path, most_bytes: int) -> None:  # noqa: D102
        # Not `adb pull`: that writes folders, too, under names that the device chooses, and has no bound.
        command = f"cat {shlex.quote(there)}"
        here.write_bytes(self._shell(command, subprocess.DEVNULL, copy_s(most_bytes), most_bytes))

    @abstractmethod
    def _words(self, command: str) -> list[str]:
        """Return what runs a command of a POSIX shell there, on this machine: program and arguments."""

    @abstractmethod
    def _shell(self, command: str, given: IO[bytes] | int, patience_s: float, most_bytes: int) -> bytes:
        """Run a command there on a standard input; return what it prints, of bounded length and time.

        Raises:
            PlaceError: as :meth:`run`.
        """

    @abstractmethod
    def send(self, here: Path, there: str) -> None:
        """Copy one file there.

        Raises:
            PlaceError: it fails.
        """

    def make_executable(self, there: str) -> None:
        """Make a file there a program."""
        self.run(f"chmod u+x {shlex.quote(there)}\n")

    def push(self, files: Mapping[str, Path]) -> str:  # noqa: D102
        digests = {name: digest_path(path) for name, path in files.items()}
        by_digest = {digest: files[name] for name, digest in digests.items()}
        self._push_missing({digest: path for digest, path in by_digest.items() if digest not in self._there})
        rows = sorted(f"{name}\0{digest}\n" for name, digest in digests.items())
        tree = f"{self.root}/trees/{hashlib.sha256(''.join(rows).encode()).hexdigest()}"
        if tree not in self._there:
            self.run(self._tree(tree, digests))
            self._there.add(tree)
        return tree

    def _push_missing(self, files: Mapping[str, Path]) -> None:
        if not files:
            return
        blobs = f"{self.root}/blobs"
        names = "\n".join(files)
        asked = (
            f'cd {shlex.quote(blobs)} && while read -r d; do [ -f "$d" ] || echo "$d"; done <<\'EOF\'\n{names}\nEOF\n'
        )
        missing = [line for line in self.run(asked).split() if line in files]
        size = sum(files[digest].stat().st_size for digest in missing)
        free = self._facts.get("free_kib", "")
        if free.isdecimal() and size + ROOM > int(free) * 1024:
            raise PlaceError(
                f"{self.name} has no space: {size / 1e6:,.0f} MB are to go to {plain(self.root)}, "
                f"{int(free) / 1e3:,.0f} MB are free. Delete files there."
            )
        for digest in missing:
            part = f"{blobs}/{digest}.{self._token}.part"
            self.send(files[digest], part)
            quoted, whole = shlex.quote(part), shlex.quote(f"{blobs}/{digest}")
            told = self.run(
                f"sum=$(sha256sum {quoted} 2>/dev/null || shasum -a 256 {quoted})\n"
                f'case "$sum" in {digest}*) mv -f {quoted} {whole} && echo whole;; *) rm -f {quoted};; esac\n'
            )
            if told.strip() != "whole":
                raise PlaceError(f"{self.name} holds another file than was sent ({files[digest].name}). Try again.")
            self.pushed_bytes += files[digest].stat().st_size
        self._there.update(files)

    def _tree(self, tree: str, digests: Mapping[str, str]) -> str:
        """Return the script that makes a folder of files that are there."""
        made = shlex.quote(f"{tree}.{self._token}")
        lines = [f"[ -d {shlex.quote(tree)} ] && exit 0", "set -e", f"rm -rf {made}", f"mkdir {made}"]
        folders = {parent.as_posix() for name in digests for parent in Path(name).parents} - {"."}
        lines += [f"mkdir -p {made}/{shlex.quote(folder)}" for folder in sorted(folders)]
        for name, digest in digests.items():
            assert _NAME.fullmatch(digest) and ".." not in Path(name).parts and not name.startswith("/")
            blob, place = shlex.quote(f"{self.root}/blobs/{digest}"), f"{made}/{shlex.quote(name)}"
            lines.append(f"ln {blob} {place} 2>/dev/null || cp {blob} {place}")
        lines.append(f"mv {made} {shlex.quote(tree)} 2>/dev/null || [ -d {shlex.quote(tree)} ]")
        return "\n".join(lines) + "\n"
