"""What the loaders' tests share: both loaders that run here, and a real bundle of four artifacts."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from cross_backend.loaders import write_loaders
from tests import needs
from tests.compiled import compiled
from tests.unit.loaders.bundles import Open, Opened, run, write
from tests.unit.loaders.cpp import COMPILE, LINK, PROGRAM, VERSIONS, header_of


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaders")
    write_loaders("net", [], folder)
    return folder


@pytest.fixture(scope="session")
def program(sources: Path) -> Path:
    """Compile a program around the C++ loader; any warning is an error."""
    needs.program("g++")
    files = {"load_best.hpp": header_of(sources), "main.cpp": PROGRAM}
    return compiled((*COMPILE, "main.cpp", "-o", "main", *LINK), files, VERSIONS) / "main"


@pytest.fixture(scope="session")
def module(sources: Path) -> Any:
    """Import the Python loader as a file, as an application would."""
    spec = importlib.util.spec_from_file_location("load_best", sources / "load_best.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["load_best"] = module  # dataclasses look their module up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # executorch calls its runtime experimental
        spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["C++", "Python"])
def open_with(request: pytest.FixtureRequest) -> Open:
    """Give a function that opens a bundle with one of the loaders that can run here."""
    if request.param == "C++":
        program = request.getfixturevalue("program")

        def open_in_cpp(bundle: Path, platform: str = "linux", verify: bool = True) -> Opened:
            done = run(program, bundle, platform, "verify" if verify else "trust")
            if done.returncode == 0:
                return Opened(**json.loads(done.stdout))
            assert done.returncode == 1, (done.returncode, done.stderr)
            return Opened(None, [], done.stderr.partition("load_best: ")[2].strip())

        return open_in_cpp
    module = request.getfixturevalue("module")

    def open_in_python(bundle: Path, platform: str = "linux", verify: bool = True) -> Opened:
        try:
            best = module.load_best(bundle, platform, verify)
        except module.BundleError as error:
            return Opened(None, [], str(error))
        return Opened(best.artifact["name"], best.rejected, why=best.why)

    return open_in_python


@pytest.fixture(scope="session")
def made(linear: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [f"linear_regression_{stem}" for stem in ("vulkan", "null", "xnnpack", "portable")]
    orders = {"linux": names, "web": names[:1:-1]}
    return write(linear, ["vulkan", "null", "xnnpack", "portable"], orders, tmp_path_factory.mktemp("bundles"))


@pytest.fixture
def bundle(made: Path, tmp_path: Path) -> Path:
    """Copy the bundle, to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "bundle"))
