"""What the packaging tests share: the wheel, built once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def make_wheel() -> Callable[..., tuple[Path, str]]:
    """Give a function that builds a wheel into a new folder, and gives it and what was told."""

    def make(folder: Path, **variables: str) -> tuple[Path, str]:
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
        done = subprocess.run(build, capture_output=True, text=True, check=False, env={**os.environ, **variables})
        assert done.returncode == 0, done.stdout + done.stderr
        (path,) = folder.iterdir()
        return path, done.stdout + done.stderr

    return make


@pytest.fixture(scope="session")
def wheel(make_wheel: Callable[..., tuple[Path, str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the wheel as it is built here."""
    path, told = make_wheel(tmp_path_factory.mktemp("dist"))
    assert "not built" not in told
    return path
