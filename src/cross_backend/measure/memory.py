"""Memory: what a worker process holds at its peak, its fair share of it, and what it keeps after closing; bytes.

Figures are of the whole process: the interpreter, the runtime's libraries and the model. Linux reports all of them;
elsewhere the rest is absent, with its reason.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from pathlib import Path

_PROC = Path("/proc/self")


def begin() -> int:
    """Forget the peak of what came before (importing) where the system can; return the resident memory now.

    Linux forgets it when 5 is written to ``clear_refs`` (proc(5)). Elsewhere, and where that is not allowed, the peak
    is that since the process began.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            (_PROC / "clear_refs").write_text("5")
    return rss_bytes()


def rss_bytes() -> int:
    """Return the resident memory of this process.

    On Linux by walking its pages (``smaps_rollup``): the counters behind ``statm`` are kept by processor and may lag
    behind by megabytes.
    """
    found = _rollup("Rss")
    if found is not None:
        return found
    import psutil

    return int(psutil.Process().memory_info().rss)


def peak_rss_bytes() -> int:
    """Return the largest resident memory since :func:`begin`, or since the process began where that forgets nothing."""
    if sys.platform == "linux":
        for line in (_PROC / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return max(int(line.split()[1]) * 1024, rss_bytes())
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts bytes, the others KiB


def pss_bytes() -> int | None:
    """Return the proportional share of the resident memory; None where the system does not say."""
    return _rollup("Pss")


def give_back_freed() -> None:
    """Collect garbage and have the C library return what it keeps for later, so that only what is held remains."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # musl has no malloc_trim
            ctypes.CDLL(None).malloc_trim(0)


def _rollup(field: str) -> int | None:
    try:
        lines = (_PROC / "smaps_rollup").read_text().splitlines()
    except OSError:  # not Linux, or a kernel before 4.14
        return None
    values = [int(line.split()[1]) for line in lines if line.startswith(f"{field}:")]
    return values[0] * 1024 if values else None
