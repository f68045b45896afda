"""What all tests share: surroundings of their own, one cache, an order for two processors, and vendors' warnings."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from cross_backend.errors import UsageError
from cross_backend.registry import find_backend, full_name, rows
from cross_backend.toolchains import find_toolchain
from cross_backend.worker import process as workers
from tests import surroundings
from tests.durations import Durations
from tests.runtimes import bring
from tests.vendors import quicken_torch
from tests.zygote import GARBAGE, Forked, Zygote, start_worker

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


_START = workers._started
"""What starts a worker outside of tests."""

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
        help="toolchains whose targets tests/toolchains runs; they are added (default: that folder is left out)",
    )
    parser.addoption("--screenshots", action="store_true", help="write the README's pictures anew (make screenshots)")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what needs gigabytes that nobody named: ``test_litert.py`` is of the toolchains that begin so."""
    if collection_path.parent.name != "toolchains" or not collection_path.name.startswith("test_"):
        return None
    family = collection_path.stem.removeprefix("test_")
    return None if any(name.startswith(family) for name in named_toolchains(config)) else True


def pytest_configure(config: pytest.Config) -> None:
    gc.set_threshold(*GARBAGE)  # a fifth of collecting tests went into looking through what is imported
    for row in VENDOR_WARNINGS:
        config.addinivalue_line("filterwarnings", row)
    surroundings.enter(is_main=not hasattr(config, "workerinput"))
    chosen = chosen_backends(config)  # an unknown name ends the run before it begins
    if config.getoption("--backends"):
        for backend in map(find_backend, chosen):
            for name in {backend.runtime_files, backend.toolchain} - {None}:
                bring(str(name))
    for name in named_toolchains(config):
        bring(name)
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def pytest_collection_finish() -> None:
    """Leave what was imported out of garbage collection: torch's millions of objects live as long as the process."""
    quicken_torch()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        surroundings.leave()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep what shares dear imports in one process, and begin with the longest group."""
    if config.getoption("dist") != "loadgroup":
        return None
    from tests.scheduling import ByGroup

    return ByGroup(config, log)


def chosen_backends(config: pytest.Config) -> list[str]:
    """Give the full names of the backends to test."""
    text = config.getoption("--backends")
    if text is None:
        return [name for name in rows() if name != "null"]
    try:
        return [full_name(name.strip()) for name in text.split(",")]
    except UsageError as error:
        raise pytest.UsageError(f"--backends: {error}") from None


def named_toolchains(config: pytest.Config) -> list[str]:
    """Give the toolchains whose targets are to be run."""
    text = config.getoption("--toolchains")
    try:
        return [find_toolchain(name.strip()).name for name in text.split(",")] if text else []
    except UsageError as error:
        raise pytest.UsageError(f"--toolchains: {error}") from None


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """Give a folder that all processes of this run share, and no other run."""
    return surroundings.run_folder()


@pytest.fixture(scope="session")
def kept_folder() -> Path:
    """Give a folder that this checkout's runs share; what lies in it is named by the content that it was made of."""
    return surroundings.KEPT


@pytest.fixture(scope="session", autouse=True)
def popen() -> Iterator[type[subprocess.Popen[Any]]]:
    """Give what starts commands and scripts of this interpreter: as forks where there is fork and ``prctl``.

    Workers of this process are forks, too, but where a test is marked ``fresh_workers``.
    """
    if sys.platform != "linux":
        yield subprocess.Popen
        return
    log = surroundings.run_folder() / f"zygote-{os.getpid()}.log"
    Forked.zygote = functools.cache(lambda: Zygote(log))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(workers, "_started", start_worker)
        yield Forked
    if Forked.zygote.cache_info().currsize:
        Forked.zygote().close()


@pytest.fixture(autouse=True)
def _fresh_workers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("fresh_workers"):
        monkeypatch.setattr(workers, "_started", _START)


@pytest.fixture(scope="session")
def run_python() -> Callable[..., str]:
    """Give a function that runs a script in a fresh interpreter and gives its standard output."""

    def run(script: str, *arguments: str, path: Path | None = None, timeout_s: float = 300) -> str:
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


@pytest.fixture(scope="session")
def new_memory(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Give a function that makes a cache which shares captures and artifacts with the other tests, but not what they
    measured and learned on this machine.
    """

    def make() -> Path:
        root = tmp_path_factory.mktemp("own_memory")
        for kind in surroundings.SHARED:
            (root / kind).symlink_to(surroundings.run_folder() / "cache" / kind, target_is_directory=True)
        return root

    return make


@pytest.fixture
def own_memory(new_memory: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with such a cache: what others measured decides which of several targets is opened."""
    monkeypatch.setenv("CROSS_BACKEND_CACHE", str(new_memory()))
