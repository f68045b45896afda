"""What every kind of toolchain is installed with: the folder of all, and one step of an installation."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from cross_backend.errors import CrossBackendError

VARIABLE = "CROSS_BACKEND_TOOLCHAINS"
"""Environment variable that overrides where toolchains lie."""


def root() -> Path:
    """Return the folder of all toolchains."""
    import platformdirs

    named = os.environ.get(VARIABLE)
    return Path(named) if named else Path(platformdirs.user_data_dir("cross-backend", appauthor=False)) / "toolchains"


def run_step(
    name: str, doing: str, command: list[str], path: str | None = None, variables: Mapping[str, str] | None = None
) -> None:
    """Run one step; ``path`` is another search path for programs, ``variables`` stand beside the environment's."""
    environment = {**os.environ, **({} if path is None else {"PATH": path}), **(variables or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise CrossBackendError(f"{name}: {doing} failed: {last}")
