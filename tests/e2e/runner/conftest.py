"""What the runner's tests share: the program, built once, and a sound bundle."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from atalla.library import library_path
from tests import needs
from tests.e2e.runner.bundles import PORTABLE, ROOT, artifact, edit
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


@pytest.fixture(scope="session")
def built(kept_folder):
    """The build folder of the runner and of the probe that shows its arithmetic.

    It takes the checkout's own library of Atalla, and is optimised little; ``test_build.py`` builds it as users do.
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

    return once(kept_folder, name, build)


def bundled(cli, folder, name, targets):
    """Bundle linear_regression for these targets, once for all processes."""

    def make(place):
        done = cli("bundle", "linear_regression", "--backends", *targets, "--strict", "--output-dir", place)
        assert done.returncode == 0, done.stdout + done.stderr

    return once(folder, name, make) / "linear_regression"


@pytest.fixture(scope="session")
def sound(cli, shared_folder):
    """A bundle of linear_regression; not to be changed."""
    return bundled(cli, shared_folder, "runner_bundle", ("xnnpack", "portable", "vulkan"))


@pytest.fixture(scope="session")
def accelerated(cli, shared_folder):
    """A bundle of linear_regression with Atalla, alone and inside of ExecuTorch; not to be changed."""
    return bundled(cli, shared_folder, "runner_bundle_atalla", ("atalla", "executorch.atalla", "xnnpack"))


@pytest.fixture
def bundle(sound, tmp_path):
    """A copy of that bundle that a test may damage."""
    return Path(shutil.copytree(sound, tmp_path / "bundle"))


@pytest.fixture(scope="session")
def runner(built):
    """Run the runner to its end."""

    def run(*args, **extra):
        return subprocess.run(
            [built / "cross_backend_runner", *map(str, args)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            env={**os.environ, **extra},
            check=False,
        )

    return run


@pytest.fixture
def rows(runner, document):
    """Run with --json and give artifact name → row."""

    def run(*args, status=0, **extra):
        result = runner(*args, "--json", **extra)
        wanted = result.returncode if status is None else status
        return {row["name"]: row for row in document(result, wanted)["results"]}

    return run


@pytest.fixture
def harmful(bundle, tmp_path):
    """Give a function that makes the portable artifact run C code in its bench; it gives the environment for that.

    OpenVINO's delegate opens a library by name, and the library's constructor is this code.
    """

    def make(body):
        source, library = tmp_path / "harm.c", tmp_path / "libharm.so"
        headers = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
        source.write_text(f"{headers}__attribute__((constructor)) static void harm(void) {{ {body} }}\n")
        subprocess.run([needs.program("cc"), "-shared", "-fPIC", "-o", library, source], check=True)
        edit(bundle, lambda row: artifact(row, PORTABLE)["placement"].update(delegates={"OpenvinoBackend": 1}))
        return {"OPENVINO_LIB_PATH": str(library)}

    return make


@pytest.fixture
def refused(runner):
    """Check that the runner refuses with one clear line and status 2; give the line."""

    def check(*args, words=()):
        result = runner(*args)
        assert result.returncode == 2, (result.returncode, result.stdout, result.stderr)
        assert result.stdout == ""
        assert result.stderr.startswith("cross_backend_runner: ")
        assert result.stderr.count("\n") == 1
        assert len(result.stderr) < 1000
        for word in words:
            assert word in result.stderr
        return result.stderr

    return check
