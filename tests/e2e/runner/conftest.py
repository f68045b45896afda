"""What the runner's tests share: the program, built once, and a sound bundle."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import needs
from tests.e2e.runner.build import build_runner, once
from tests.e2e.runner.bundles import PORTABLE, artifact, edit


@pytest.fixture(scope="session")
def built(kept_folder):
    """The build folder of the runner and of the probe that shows its arithmetic."""
    return build_runner(kept_folder)


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
