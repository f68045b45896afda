"""An Android phone, or another machine that the program adb reaches, over USB or Wi-Fi."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import IO

from cross_backend.errors import PlaceError
from cross_backend.foreign_text import plain
from cross_backend.places.address import Address
from cross_backend.places.condition import SCRIPT, Condition, parse_condition
from cross_backend.places.piped import Piped, connects, let_end, piped
from cross_backend.places.shell import LONGEST_ANSWER, ShellPlace, copy_s
from cross_backend.worker.process import with_pipes

VARIABLE = "CROSS_BACKEND_ADB"
"""Environment variable: the command instead of ``adb``, with options: ``adb -P 5038``."""
CONNECT_S = 30.0
"""Longest wait for adb's server, and for a phone to answer."""
CONDITION_S = 20.0
"""Longest wait for the phone's condition."""
CLEAN_S = 20.0
"""Longest wait until the phone has deleted our files."""
PARENT = '"${TMPDIR:-/data/local/tmp}"/cross-backend'
"""Folder there that holds ours, as the shell there reads it; adb sets ``TMPDIR``."""
_HOLD = r"""
trap '' HUP
umask 077
p=PARENT
mkdir -p "$p" || exit 1
for d in "$p"/*; do
  [ -d "$d" ] && ! kill -0 "$(cat "$d/holder" 2>/dev/null)" 2>/dev/null && rm -rf "$d"
done
mkdir "$p/.TOKEN" && echo $$ > "$p/.TOKEN/holder" && mv "$p/.TOKEN" "$p/TOKEN" || exit 1
echo connected
cat > /dev/null
rm -rf "$p/TOKEN" 2>/dev/null || { sleep 1; rm -rf "$p/TOKEN"; }
rmdir "$p" 2>/dev/null
exit 0
"""
"""Runs there as long as the connection; then it deletes our files, also after a pulled cable. First it deletes what a
phone kept that was switched off."""
_PROPERTIES = {
    "release": "ro.build.version.release",
    "maker": "ro.product.manufacturer",
    "model": "ro.product.model",
    "abi": "ro.product.cpu.abi",
    "soc_maker": "ro.soc.manufacturer",
    "soc": "ro.soc.model",
    "board": "ro.board.platform",
}
_ARCHITECTURES = {"arm64-v8a": "aarch64", "x86_64": "x86_64", "armeabi-v7a": "armv7l", "x86": "i686"}
_REMEDIES = {
    "unauthorized": "it has not allowed this computer. Unlock it and accept 'Allow USB debugging'",
    "authorizing": "it has not allowed this computer yet. Unlock it and accept 'Allow USB debugging'",
    "offline": "it is offline. Reconnect it, or run: adb reconnect offline",
    "no permissions": "this user may not open the USB device. Run: sudo apt-get install "
    "android-sdk-platform-tools-common, and connect it again",
}
"""State that adb reports → why the phone cannot be used, and what to do."""
_REASONS = (
    (r"device '.*' not found|no devices", "it is not connected any more. Reconnect it"),
    (r"device unauthorized", _REMEDIES["unauthorized"]),
    (r"device offline", _REMEDIES["offline"]),
    (r"[Nn]o space left", "its storage is full. Delete files there"),
    (
        r"cannot connect to daemon|check server version|cannot start server",
        "adb's server cannot be reached. Run: adb kill-server, then adb start-server",
    ),
)
"""What adb or the phone says → why it failed, and what to do."""
NONE = (
    "no device is connected. Connect a phone by USB and turn on USB debugging in its developer options, "
    "or name one on Wi-Fi: adb:HOST:PORT"
)


class AdbPlace(ShellPlace):
    """One device; all that is ours there is deleted at the end."""

    def __init__(self, address: Address) -> None:
        """Find the device and connect.

        Raises:
            PlaceError: as it says.
        """
        super().__init__(str(address))
        self._adb = shlex.split(os.environ.get(VARIABLE, "adb"))
        if not self._adb or shutil.which(self._adb[0]) is None:
            raise PlaceError(
                f"{self.name} needs the program adb. Run: sudo apt-get install adb, or install the platform-tools."
            )
        self._folder = Path(tempfile.mkdtemp(prefix="cb-"))
        self._was_connected_here = False
        self.serial = ""
        token = secrets.token_hex(8)
        self._mark = f"whole-{token}"
        self.root_expression = f"{PARENT}/{token}"
        try:
            self.serial = self._find(address.host)
            self._check_protocol()
            self._hold(token)
            self.begin(token)
            self._facts = {**self._facts, **self._identity()}
        except BaseException:
            self.close()
            raise

    def _ask(self, *words: str, patience_s: float = CONNECT_S) -> Piped:
        chosen = ["-s", self.serial] if self.serial else []
        return piped(self.name, [*self._adb, *chosen, *words], subprocess.DEVNULL, patience_s, LONGEST_ANSWER)

    def _told(self, done: Piped) -> str:
        """Return what a command printed.

        Raises:
            PlaceError: it failed.
        """
        if done.status == 0:
            return done.printed.decode(errors="replace")
        if self._connection is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._connection.wait(0.5)  # where the connection broke, that is the reason
        if lost := self.lost():
            raise PlaceError(f"{lost}. Reconnect it and try again.")
        raise PlaceError(self._why("failed", done.complaint or done.printed.decode(errors="replace")))

    def _why(self, failed: str, said: str) -> str:
        """Return an error: what adb or the phone said, and what to do."""
        for pattern, reason in _REASONS:
            if re.search(pattern, said):
                return f"{self.name}: {reason}."
        lines = [line for line in said.splitlines() if line.strip()]
        lines = [line for line in lines if "error" in line] or lines  # adb goes on with how much it copied
        last = plain(lines[-1].strip())[:200] if lines else "no answer"
        return f"{self.name} {failed} ({last})."

    def _devices(self) -> dict[str, str]:
        """Return serial number → state."""
        told = self._told(self._ask("devices"))
        _, _, listed = told.partition("List of devices attached")
        rows = [line.split("\t", 1) for line in listed.splitlines() if "\t" in line]
        return {serial.strip(): state.strip() for serial, state in rows}

    def _find(self, wanted: str) -> str:
        """Return the serial number of the device, which is ready."""
        self._told(self._ask("start-server"))
        found = self._devices()
        if wanted not in found and re.fullmatch(r"[\w.-]+:\d+", wanted):
            done = self._ask("connect", wanted)
            self._was_connected_here = True
            found = self._devices()
            if wanted not in found:
                said = plain((done.printed.decode(errors="replace") or done.complaint).strip())[:200]
                raise PlaceError(
                    f"{self.name} does not answer ({said}). Turn on wireless debugging there, and on new phones "
                    "pair it first: adb pair HOST:PORT."
                )
        names = ", ".join(plain(serial) for serial in found)
        if not found:
            raise PlaceError(f"{self.name}: {NONE}.")
        if not wanted and len(found) > 1:
            raise PlaceError(f"{self.name}: {len(found)} devices are connected: {names}. Name one: adb:SERIAL.")
        if wanted and wanted not in found:
            raise PlaceError(f"{self.name} is not connected. Connected: {names}.")
        serial = wanted or next(iter(found))
        state = found[serial]
        if state == "device":
            return serial
        remedy = next((text for name, text in _REMEDIES.items() if state.startswith(name)), None)
        if remedy is None:
            remedy = f"it is in state '{plain(state)[:50]}'. Start its system and turn on USB debugging"
        raise PlaceError(f"{self.name}: {remedy}." if wanted else f"{self.name} ({plain(serial)}): {remedy}.")

    def _check_protocol(self) -> None:
        if "shell_v2" not in self._told(self._ask("features")).split():
            raise PlaceError(f"{self.name} is older than Android 7: its shell has no exit status, which is needed.")

    def _hold(self, token: str) -> None:
        """Start the process there that lives as long as the connection."""
        script = _HOLD.replace("PARENT", PARENT).replace("TOKEN", token)
        log = self._folder / "log"
        self._connection = with_pipes(log, self._words(script))
        if not connects(self._connection, CONNECT_S, LONGEST_ANSWER):
            raise PlaceError(self._why("cannot be reached", log.read_text(errors="replace")))

    def _identity(self) -> dict[str, str]:
        """Return what the phone says that it is; nothing where it is no Android."""
        asked = "".join(f'echo "{key}=$(getprop {name} 2>/dev/null)"\n' for key, name in _PROPERTIES.items())
        rows = (line.split("=", 1) for line in self.run(asked).splitlines() if "=" in line)
        found = {key: plain(value.strip())[:80] for key, value in rows if key in _PROPERTIES}
        if not found.get("release"):
            return {}
        architecture = _ARCHITECTURES.get(found.get("abi", ""), self._facts.get("architecture", ""))
        chip = " ".join(filter(None, (found.get("soc_maker"), found.get("soc")))) or found.get("board") or architecture
        model = " ".join(filter(None, (found.get("maker"), found.get("model"))))
        return {
            "system": "Android",
            "release": found["release"],
            "architecture": architecture,
            "cpu": f"{chip} ({model})" if model else chip,
        }

    def _words(self, command: str) -> list[str]:
        return [*self._adb, "-s", self.serial, "shell", "-T", command]

    def _shell(self, command: str, given: IO[bytes] | int, patience_s: float, most_bytes: int) -> bytes:
        # Where the connection breaks, adb ends with status 0: only the mark at its end says that the output is whole.
        whole = f"{command}; s=$?; printf %s {self._mark}; exit $s"
        mark = self._mark.encode()
        done = piped(self.name, self._words(whole), given, patience_s, most_bytes, beside=len(mark))
        if done.status:
            self._told(done)
        if not done.printed.endswith(mark):
            raise PlaceError(f"the connection to {self.name} broke. Reconnect it and try again.")
        return done.printed.removesuffix(mark)

    def send(self, here: Path, there: str) -> None:  # noqa: D102  the declaration says it
        self._told(self._ask("push", str(here.resolve()), there, patience_s=copy_s(here.stat().st_size)))

    def condition(self) -> Condition | None:  # noqa: D102
        try:
            return parse_condition(self.run(SCRIPT, CONDITION_S))
        except PlaceError:
            if self.lost() is not None:
                raise
            return Condition()

    def close(self) -> None:  # noqa: D102
        if self._connection is not None:
            let_end(self._connection, CLEAN_S)
        if self._was_connected_here and self.serial:
            with contextlib.suppress(PlaceError):
                self._ask("disconnect", self.serial)
        shutil.rmtree(self._folder, ignore_errors=True)
