"""What all tests share: one cache for a whole run, no colours from outside, and the warnings that vendors give."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from cross_backend.errors import UsageError
from cross_backend.registry import full_name, rows

VENDOR_WARNINGS = (
    # torch 2.13 pickles its own LeafSpec when a program is copied or saved.
    r"ignore:`isinstance\(treespec, LeafSpec\)` is deprecated:FutureWarning",
    # torch 2.13 decorates its own modules with it; seen when executorch or inductor is imported.
    r"ignore:`torch\.jit\.script_method` is deprecated:DeprecationWarning",
    # executorch 1.5 reads its own schema files through importlib.resources' old functions.
    r"ignore:(read_text|open_text|read_binary) is deprecated\. Use files\(\) instead:DeprecationWarning",
    # coremltools 9 is told by executorch's own partitioner to look operators up the old way.
    r"ignore:Function _TORCH_OPS_REGISTRY\.__contains__ is deprecated:DeprecationWarning",
    # coremltools 9 leaves its folder for weights to the garbage collector (converters/mil/converter.py:215).
    r"ignore:Implicitly cleaning up <TemporaryDirectory:ResourceWarning",
)
"""pytest filters ``action:message:category``, one for each warning that a vendor's code gives inside our process."""


hypothesis.settings.register_profile("tests", deadline=None, derandomize=True, database=None, max_examples=60)
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backends",
        metavar="NAME,NAME",
        help="backends that the conformance suite tests, full or short names; one that is missing here fails "
        "(default: all of the registry but null)",
    )
    parser.addoption(
        "--toolchains",
        metavar="NAME,NAME",
        help="toolchains that were added here, whose targets tests/toolchains runs (default: that folder is left out)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what needs gigabytes that nobody named."""
    return True if collection_path.name == "toolchains" and not config.getoption("--toolchains") else None


def pytest_configure(config: pytest.Config) -> None:
    for row in VENDOR_WARNINGS:
        config.addinivalue_line("filterwarnings", row)
    chosen_backends(config)  # an unknown name ends the run before it begins
    config.addinivalue_line("markers", "xdist_group(name): tests that pytest-xdist keeps in one process (loadgroup)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of one backend, and of one file of commands, in one process: what it imports, compiles and makes
    for them is done once.

    That is what ``xdist_group`` and ``--dist loadgroup`` are for, but pytest-xdist 3.8 writes the group into a private
    field that pytest 9.2 no longer reads; so the group is read from the test's own name.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling

    class ByBackend(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            first = nodeid.rpartition("[")[2].rstrip("]").split("-")[0]
            if first in rows():
                return first
            file = nodeid.partition("::")[0]
            return file if file.startswith("tests/e2e/") else str(super()._split_scope(nodeid))

    return ByBackend(config, log)


def chosen_backends(config: pytest.Config) -> list[str]:
    """Give the full names of the backends to test."""
    text = config.getoption("--backends")
    if text is None:
        return [name for name in rows() if name != "null"]
    try:
        return [full_name(name.strip()) for name in text.split(",")]
    except UsageError as error:
        raise pytest.UsageError(f"--backends: {error}") from None


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that all processes of this run share, and no other run."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session", autouse=True)
def environment(shared_folder: Path) -> Iterator[None]:
    """Point all caches at the shared folder; make output independent of who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSS_BACKEND_CACHE", str(shared_folder / "cache"))
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(shared_folder / "inductor"))
        patch.setenv("TERM", "xterm-256color")
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def run_python(environment: None) -> Callable[..., str]:
    """Give a function that runs a script in a fresh interpreter and gives its standard output."""

    def run(script: str, *arguments: str, path: Path | None = None, timeout_s: float = 120) -> str:
        variables = dict(os.environ)
        if path is not None:
            variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(path), variables.get("PYTHONPATH"))))
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=variables,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
