"""What the tests of ``bundle`` share: a bundle for browsers, and copies of it to be damaged."""

import fcntl
import shutil
from pathlib import Path

import pytest

from tests.e2e.bundle.contents import WEB


@pytest.fixture(scope="session")
def web(linear, cli, new_memory, shared_folder, tmp_path_factory):
    """A bundle for browsers, written once for all processes of pytest-xdist; not to be changed.

    What ``linear`` lowered is in the cache.
    """
    folder = shared_folder / "web"
    with (shared_folder / "web.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            partial = tmp_path_factory.mktemp("partial")
            result = cli(*WEB, "--output-dir", partial, "--strict", cache=new_memory())
            assert result.returncode == 0, result.stderr
            partial.rename(folder)
    return folder / "linear_regression"


@pytest.fixture
def bundle(web, tmp_path):
    """A copy of that bundle that a test may damage."""
    return Path(shutil.copytree(web, tmp_path / "bundle"))
