"""Surroundings: the tests see folders of their own, never the user's cache, toolchains, database or settings.

``.cache/tests`` in the checkout is kept from run to run. What is dear to make lies there by content: captures and
artifacts, under a digest of all the code that makes them, and compiled C and C++. Everything else is a run's own.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".cache" / "tests"
CCACHE = Path("/usr/lib/ccache")
"""Where Debian puts compilers that look into ccache first."""
_RUN = "CROSS_BACKEND_TEST_RUN"
"""Environment variable by which the processes of a run find its folder."""
SHARED = ("artifacts", "captures", "trusted")
"""Kinds of cache entries that runs share: their keys say all that they depend on; trusted digests are of these."""
_MAKERS = (
    *("artifact.py", "cache.py", "registry.py", "names/*.py", "structure.py", "tensors.py", "trust.py"),
    *(
        f"{wing}/**/*.py"
        for wing in ("backend", "backends", "exporting", "lowering", "program", "toolchains", "verify", "workloads")
    ),
)
"""Our code that makes captures and artifacts; Atalla's compiler comes on top."""
_DROPPED = (
    *("NO_COLOR", "FORCE_COLOR", "COLUMNS", "ATALLA_LIBRARY", "CROSS_BACKEND_DB", "QNN_SDK_ROOT", "CC", "CXX"),
    "PYTHONDONTWRITEBYTECODE",  # each of hundreds of processes would compile what it imports
)
"""What the user's shell may say and the tests must not hear."""
_KEEP_S = 3 * 24 * 3600
"""How long what belongs to another version of the sources, or to a run that was killed, is kept; seconds."""


def enter(*, is_main: bool) -> None:
    """Point this process, and all that it starts, at a folder of this run.

    Args:
        is_main: whether this process makes the folder; pytest-xdist's workers find it.
    """
    if is_main:
        (KEPT / "runs").mkdir(parents=True, exist_ok=True)
        os.environ[_RUN] = tempfile.mkdtemp(prefix="run-", dir=KEPT / "runs")
        _share()
    for name in _DROPPED:
        os.environ.pop(name, None)
    sys.dont_write_bytecode = False
    run = run_folder()
    os.environ |= {
        "CROSS_BACKEND_CACHE": str(run / "cache"),
        "CROSS_BACKEND_TOOLCHAINS": str(run / "toolchains"),
        "XDG_DATA_HOME": str(run / "data"),
        "ATALLA_CACHE": str(KEPT / "atalla"),
        "TORCHINDUCTOR_CACHE_DIR": str(KEPT / "inductor"),
        "CCACHE_DIR": str(KEPT / "ccache"),
        "CCACHE_MAXSIZE": "2G",
        "PATH": _with_ccache(os.environ["PATH"]),
        "TERM": "xterm-256color",
        "OMP_WAIT_POLICY": "PASSIVE",  # processes share the processors, and threads that spin waste a quarter
    }
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # In the background (`make test &`) it is ignored, and so it would be in every child that a test interrupts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _with_ccache(path: str) -> str:
    """Put compilers that remember first: wheels, toolchains and the runner compile the same files."""
    return path if str(CCACHE) in path.split(os.pathsep) or not CCACHE.is_dir() else f"{CCACHE}{os.pathsep}{path}"


def leave() -> None:
    """Delete the run's folder."""
    shutil.rmtree(run_folder(), ignore_errors=True)


def run_folder() -> Path:
    """Return the folder that all processes of this run share, and no other run."""
    return Path(os.environ[_RUN])


def _share() -> None:
    """Let the run's cache hold what earlier runs of the same sources captured and lowered."""
    shared = KEPT / "cache" / _digest()
    own = run_folder() / "cache"
    own.mkdir()
    for kind in SHARED:
        (shared / kind).mkdir(parents=True, exist_ok=True)
        (own / kind).symlink_to(shared / kind, target_is_directory=True)
    os.utime(shared)
    oldest = time.time() - _KEEP_S
    for old in (*KEPT.glob("cache/*"), *KEPT.glob("runs/*")):
        if old.stat().st_mtime < oldest:
            shutil.rmtree(old, ignore_errors=True)


def _digest() -> str:
    source = ROOT / "src" / "cross_backend"
    files = [file for pattern in _MAKERS for file in source.glob(pattern)]
    files += [*(ROOT / "src" / "atalla").rglob("*.py"), ROOT / "constraints.txt", ROOT / "pyproject.toml"]
    return digest_of(files)


def digest_of(files: Iterable[Path]) -> str:
    """Return a short digest of the names and contents of files of this checkout."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]
