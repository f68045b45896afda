"""Atalla in the wheel: with its C kernels where there was a compiler, by the reference where there was none."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from atalla.library import LIBRARY

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NO_COMPILER = {"CC": str(ROOT / "no" / "compiler")}
SCRIPT = """
import json, sys, warnings
import atalla, torch
module = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.GELU())
x = torch.randn(2, 6)
blob = atalla.compile(torch.export.export(module, (x,))).data
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    loaded = atalla.load(blob)
    atalla.load(blob)
torch.testing.assert_close(loaded.run((x,))[0], module(x))
found = {"isa": loaded.isa, "told": [(one.category.__name__, str(one.message), one.filename) for one in told]}
try:
    found["base"] = atalla.load(blob, isa="base").isa
except atalla.KernelError as error:
    found["base"] = str(error)
print(json.dumps({**found, "file": atalla.__file__}))
"""


def installed(wheel: Path, folder: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Install a wheel into an environment that sees torch, too; give a function that runs its Python."""
    venv.create(folder / "venv")
    variables = {"base": str(folder / "venv"), "platbase": str(folder / "venv")}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=variables))
    with zipfile.ZipFile(wheel) as archive:  # what pip does with a wheel without scripts and data
        archive.extractall(packages)
    (packages / "torch_of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = Path(sysconfig.get_path("scripts", "venv", vars=variables)) / "python"
    kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "VIRTUAL_ENV", "ATALLA_LIBRARY"}}

    def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *arguments], capture_output=True, text=True, cwd=folder, env={**kept, **more}, check=False
        )

    return run


def runs(python: Callable[..., subprocess.CompletedProcess[str]]) -> dict[str, object]:
    done = python("-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    assert "torch_of" not in str(found["file"]) and not str(found.pop("file")).startswith(str(ROOT))
    return found


def test_a_wheel_with_the_kernels_runs_them_on_any_python(wheel: Path, tmp_path: Path) -> None:
    assert re.fullmatch(r"cross_backend-.*-py3-none-(?!any|manylinux)\w+\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        assert "atalla/" + LIBRARY in archive.namelist()
        tags = archive.read(next(n for n in archive.namelist() if n.endswith(".dist-info/WHEEL"))).decode()
    assert "Root-Is-Purelib: false" in tags
    found = runs(installed(wheel, tmp_path))
    assert found["base"] == "base" and found["isa"] != "reference" and found["told"] == []


def test_an_installed_wheel_writes_the_page_of_a_simulation(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Linear(8, 4), (torch.randn(2, 8),)\n"
    )
    python = installed(wheel, tmp_path)
    done = python("-m", "atalla", "simulate", "net.py:make", "--report", "out.html")
    assert done.returncode == 0 and "report: 160 of 160 devices" in done.stderr, done.stderr
    assert "class Timeline" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_without_a_compiler_the_wheel_is_pure_and_the_reference_runs_and_says_so(
    make_wheel: Callable[..., tuple[Path, str]], tmp_path: Path
) -> None:
    wheel, told = make_wheel(tmp_path / "dist", **NO_COMPILER)
    assert "Atalla's C kernels are not built" in told and "there is no C compiler" in told
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "libatalla" in name]
    python = installed(wheel, tmp_path)
    found = runs(python)
    assert found["isa"] == "reference" and "python -m atalla.build" in str(found["base"])
    assert [(kind, file) for kind, _, file in found["told"]] == [("ReferenceWarning", "<string>")]

    failed = python("-m", "atalla.build", **NO_COMPILER)
    assert failed.returncode == 1 and failed.stderr.startswith("there is no C compiler")
    assert len(failed.stderr.splitlines()) == 1
    assert python("-m", "atalla.build").returncode == 0
    assert runs(python)["isa"] != "reference", "the wheel holds the sources"


def test_an_editable_install_builds_beside_the_sources_what_is_older_than_they(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "libatalla*"))
    for name in ("LICENSE", "README.md", "hatch_build.py", "pyproject.toml"):
        shutil.copy2(ROOT / name, copy)
    shutil.copytree(ROOT / "runner", copy / "runner", ignore=shutil.ignore_patterns("build"))
    hook = "from hatchling.build import build_editable; import sys; build_editable(sys.argv[1])"
    library = copy / "src" / "atalla" / LIBRARY

    def install(**variables: str) -> str:
        command = [sys.executable, "-c", hook, str(tmp_path)]
        env = {**os.environ, **variables}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=copy, env=env)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    install()
    first = library.stat().st_mtime_ns
    install(**NO_COMPILER)
    assert library.stat().st_mtime_ns == first, "nothing is newer"
    os.utime(library, (0, 0))
    assert "not built" in install(**NO_COMPILER)
    assert not library.exists(), "kernels of older sources would run unseen"
    install()
    assert library.stat().st_mtime_ns > first
