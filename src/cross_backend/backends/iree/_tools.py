"""The programs that come with IREE's runtime package."""

from __future__ import annotations

import sys


def tool(name: str) -> str:
    """Return the path of a program of the package iree-base-runtime."""
    from pathlib import Path

    import iree._runtime_libs

    return str(Path(iree._runtime_libs.__path__[0]) / (f"{name}.exe" if sys.platform == "win32" else name))
