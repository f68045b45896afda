"""Process: finds a browser of this machine, and runs it without a window on one page, in a throw-away profile."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from cross_backend.errors import LoadError

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge", "chrome", "msedge")
"""Programs that will do, best first, on the search path."""
_PLACES = {
    "darwin": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
    ),
    "win32": (
        r"%ProgramFiles%\Google\Chrome\Application\chrome.exe",
        r"%ProgramFiles(x86)%\Google\Chrome\Application\chrome.exe",
        r"%LocalAppData%\Google\Chrome\Application\chrome.exe",
        r"%ProgramFiles(x86)%\Microsoft\Edge\Application\msedge.exe",
    ),
}
"""Where their installers put them beside the search path."""
_ALWAYS = (
    "--headless=new",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",  # containers often have 64 MB of it
    "--disable-extensions",
    "--disable-sync",
    "--mute-audio",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # it talks to us and nobody else
    # A page without a window would be slowed down as one that nobody looks at.
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
)
_HAS_LIFELINE = os.name == "posix"
_LIFELINE = 'it=$1; shift; "$@" 3<&0 4>/dev/null; code=$?; rm -rf "$it" || { sleep 1; rm -rf "$it"; }; exit $code'
"""With ``--remote-debugging-pipe`` a browser ends when file 3 does, also where this process was killed; its profile
goes with it. Both are in a session of their own, as a worker is killed with its whole group."""
_END_S = 5.0


def find_browser() -> str | None:
    """Return the path of a browser that can be run without a window; None where there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    places = (Path(os.path.expandvars(place)) for place in _PLACES.get(sys.platform, ()))
    return next((str(place) for place in places if place.is_file()), None)


class BrowserProcess:
    """A running browser; it ends with ``close``, and with this process."""

    def __init__(self, url: str, flags: Sequence[str]) -> None:
        """Start it on a page.

        Raises:
            LoadError: there is none, or it does not start.
        """
        program = find_browser()
        if program is None:
            raise LoadError("there is no Chromium, Chrome or Edge on this machine.")
        self._profile = Path(tempfile.mkdtemp(prefix="cross-backend-browser-"))
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  held as long as the browser
        command = [program, *_ALWAYS, *flags, f"--user-data-dir={self._profile}"]
        if _HAS_LIFELINE:
            if os.geteuid() == 0:
                command.append("--no-sandbox")  # Chromium does not start as root with one
            command = ["sh", "-c", _LIFELINE, "sh", str(self._profile), *command, "--remote-debugging-pipe"]
        try:
            self._process = subprocess.Popen(
                [*command, url],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._log,
                start_new_session=_HAS_LIFELINE,
            )
        except OSError as error:
            self._clear()
            raise LoadError(f"{program} does not start: {error.strerror}.") from error

    @property
    def pid(self) -> int:
        """The process whose children are all of the browser's."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it did not end."""
        return self._process.poll() is None

    def last_words(self) -> str:
        """Return the last line that it printed, or an empty text."""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")

    def close(self) -> None:
        """End it, and delete its profile."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        if not _HAS_LIFELINE:
            self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._kill()
        self._clear()

    def _kill(self) -> None:
        if _HAS_LIFELINE:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()

    def _clear(self) -> None:
        self._log.close()
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
