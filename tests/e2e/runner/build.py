"""The build of the C++ runner that all tests share, made once."""

import fcntl
import os
import re
import subprocess
import sys

from atalla.library import library_path
from tests import needs
from tests.e2e.runner.bundles import ROOT
from tests.surroundings import digest_of


def once(parent, name, make):
    """Make a folder once for all processes that use its parent."""
    folder = parent / name
    with (parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (parent / f"{name}.done").exists():
            make(folder)
            (parent / f"{name}.done").touch()
    return folder


def build_runner(parent):
    """Give the build folder of the runner and of the probe that shows its arithmetic.

    It takes the checkout's own library of Atalla, and is optimised little; ``test_build.py`` and
    ``test_without_python.py`` build it as users do.
    """
    needs.program("c++")
    sources = [*(ROOT / "runner").rglob("*"), *(ROOT / "src/atalla/csrc").rglob("*")]
    sources = [path for path in sources if path.is_file() and "build" not in path.relative_to(ROOT).parts]
    name = f"runner-{digest_of([*sources, ROOT / 'constraints.txt', ROOT / 'src/cross_backend/_version.py'])}"

    def build(folder):
        def run(*command):
            environment = {**os.environ, "PYTHON": sys.executable}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

        quick = ("-DCMAKE_UNITY_BUILD=ON", "-DCMAKE_CXX_FLAGS_RELEASE=-O1")
        run(ROOT / "runner" / "build.sh", folder, f"-DRUNNER_ATALLA_LIBRARY={library_path()}", *quick)
        cmake = re.search("^CMAKE_COMMAND:INTERNAL=(.*)", (folder / "CMakeCache.txt").read_text(), re.MULTILINE)[1]
        run(cmake, "--build", folder, "--target", "runner_probe")

    return once(parent, name, build)
