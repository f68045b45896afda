"""The release: its script's sdist, wheels for two processors, SBOM and digests; the foreign kernels run under QEMU."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import needs
from tests.atalla.native import HERE, run_blob
from tests.atalla.test_compile import compiled, same
from tests.atalla.test_sanitizers import ARM, QEMU

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deploy" / "release.sh"
LIBRARY = "atalla/libatalla.so"


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run([SCRIPT, folder], capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs.program(ARM)
    folder = tmp_path_factory.mktemp("release")
    done = run(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def wheel(release: Path, machine: str) -> Path:
    (found,) = release.glob(f"cross_backend-*-py3-none-manylinux_*_{machine}.whl")
    return found


def test_digests_are_those_of_the_files(release: Path) -> None:
    rows = [line.split() for line in (release / "SHA256SUMS").read_text().splitlines()]
    assert {name for _, name in rows} == {path.name for path in release.iterdir()} - {"SHA256SUMS"}
    assert len(rows) == 4
    for digest, name in rows:
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == digest


def test_the_sdist_holds_what_builds_and_tests_it_and_nothing_of_this_machine(release: Path) -> None:
    (path,) = release.glob("cross_backend-*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "constraints.txt", "hatch_build.py"} <= names
    assert "tests/packaging/test_release.py" in names
    assert not [name for name in names if re.match(r"\.(ci|cache|git|github|venv|whl)/|.*libatalla\.so$", name)]


@pytest.mark.parametrize(("machine", "number"), [("x86_64", 62), ("aarch64", 183)])
def test_a_wheels_kernels_are_for_its_processor(machine: str, number: int, release: Path) -> None:
    with zipfile.ZipFile(wheel(release, machine)) as archive:
        header = archive.read(LIBRARY)[:20]
    assert header[:4] == b"\x7fELF" and int.from_bytes(header[18:20], "little") == number


def test_the_wheel_for_aarch64_computes_there_what_it_computes_here(release: Path, tmp_path: Path) -> None:
    """A driver that is linked with the library out of the wheel, on an emulated processor."""
    needs.program(QEMU)
    with zipfile.ZipFile(wheel(release, "aarch64")) as archive:
        (tmp_path / "libatalla.so").write_bytes(archive.read(LIBRARY))
    program = tmp_path / "run_blob"
    sources = ["-I", str(ROOT / "src/atalla/csrc"), str(HERE / "run_blob.c")]
    lacking = [f"-DATALLA_NO_{name}" for name in ("AVX2", "AVX512", "VNNI", "AMX")]
    links = ["-L", str(tmp_path), "-latalla", "-lm", "-lpthread", "-o", str(program)]
    built = subprocess.run(
        [ARM, "-std=c11", "-D_GNU_SOURCE", *lacking, *sources, *links], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    made, inputs, wanted = compiled("mlp")
    emulated = [QEMU, "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={tmp_path}", str(program)]
    same(run_blob(emulated, made.data, inputs, tmp_path, threads=2, isa="base"), wanted, 2e-5)


def test_the_sbom_names_every_version_that_runs_together(release: Path) -> None:
    found = json.loads((release / "sbom.cdx.json").read_text())
    assert found["bomFormat"] == "CycloneDX" and found["metadata"]["component"]["name"] == "cross-backend"
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert {(row["name"], row["version"]) for row in found["components"]} == set(pins)


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    needs.program(ARM)
    (tmp_path / "old.whl").touch()
    done = run(tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"deploy/release.sh: {tmp_path} is not empty. Name another folder, or delete it.\n"
