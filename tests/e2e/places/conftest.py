"""A far machine: this one, over a real OpenSSH server on loopback."""

import platform
import shutil
import sys

import pytest

from cross_backend.toolchains import RUNNERS, VARIABLE
from tests.e2e.runner.build import build_runner


@pytest.fixture(scope="session")
def there():
    """The address of the far machine, with this interpreter."""
    return f"ssh://there?python={sys.executable}"


@pytest.fixture(scope="session")
def toolchains(tmp_path_factory, kept_folder):
    """A folder of toolchains: this machine's runner, which stands for Android's, too. That cannot be built here."""
    machine, folder = platform.machine(), tmp_path_factory.mktemp("toolchains")
    program = build_runner(kept_folder) / "cross_backend_runner"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        for one in RUNNERS.values():
            if one.architecture == machine:
                out = one.folder / "out"
                out.mkdir(parents=True)
                shutil.copy(program, out)
                (one.folder / "ready").touch()
    return str(folder)
