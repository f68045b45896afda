"""Build the delegate: the C++ library that runs blobs inside ExecuTorch, compiled against the package that is here.

python -m atalla.executorch.build_delegate

It is compiled once for a version of its source and of ExecuTorch, and kept in ``$ATALLA_CACHE``, or else in
``~/.cache/atalla``. :func:`load` builds it where it is not there, and opens it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from atalla.build import SOURCES
from atalla.errors import AtallaError
from atalla.library import library, library_path

SOURCE = SOURCES / "executorch_delegate.cpp"
FLAGS = (
    *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-fno-rtti", "-fno-exceptions"),
    *("-Wall", "-Wextra", "-Werror", "-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
)
"""The last two as the package's own libraries were compiled: else classes that both sides use differ."""


def compiler() -> list[str]:
    """Return the command of the C++ compiler: ``$CXX``, or ``c++``."""
    return shlex.split(os.environ.get("CXX") or "c++")


def delegate_path() -> Path:
    """Return where the library for the ExecuTorch that is here lies, or will lie.

    Raises:
        AtallaError: ExecuTorch is not installed.
    """
    digest = hashlib.sha256()
    for file in (SOURCE, SOURCES / "atalla.h", SOURCES / "isa.h"):
        digest.update(file.read_bytes())
    digest.update(repr((_version(), FLAGS, compiler(), sys.platform)).encode())
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("ATALLA_CACHE") or Path(home) / "atalla")
    return folder / f"libatalla_delegate_{digest.hexdigest()[:16]}{_suffix()}"


def build(path: Path) -> None:
    """Compile the library; it is there whole or not at all.

    Raises:
        AtallaError: ExecuTorch is not installed, there is no C++ compiler, or it failed.
    """
    include = _package() / "include"
    headers = (SOURCES, include, include / "executorch/runtime/core/portable_type/c10")
    own, *theirs = (str(folder) for folder in headers)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        # What the runtime and the C kernels define is found when it is opened: both are loaded by then.
        link = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
        command = [*compiler(), *FLAGS, f"-I{own}", *(f"-isystem{one}" for one in theirs), "-shared", *link]
        try:
            done = subprocess.run([*command, SOURCE, "-o", made], capture_output=True, text=True, check=False)
        except OSError as error:
            raise AtallaError(
                f"no C++ compiler {compiler()[0]!r}, which the delegate's runtime is built with ({error.strerror}): "
                "install one (Debian: apt-get install g++), or name it in CXX"
            ) from error
        if done.returncode:
            raise AtallaError(f"{compiler()[0]} failed: {done.stderr.strip()[-2000:]}")
        made.replace(path)


@functools.cache
def load() -> ctypes.CDLL:
    """Make ExecuTorch's runtime in this process hold AtallaBackend; build the library first where that was not done.

    Raises:
        AtallaError: something to build or to run it is missing, or the runtime refuses it.
    """
    path = delegate_path()
    if not path.exists():
        build(path)
    library()  # says what is missing, or of another version
    try:
        for needed in (_package() / "lib" / f"libexecutorch{_suffix()}", library_path()):
            ctypes.CDLL(str(needed), ctypes.RTLD_GLOBAL)
        opened = ctypes.CDLL(str(path))
    except OSError as error:
        raise AtallaError(f"the delegate's runtime does not load: {error}") from error
    status = opened.atalla_delegate_registered()
    if status:
        raise AtallaError(f"ExecuTorch's runtime refuses AtallaBackend: error {status:#x}")
    return opened


def set_threads(count: int) -> None:
    """Set how many threads run the programs that are loaded from now on, whatever they were compiled with.

    Raises:
        AtallaError: not from 1 to 4096; or as :func:`load`.
    """
    if load().atalla_delegate_set_threads(count):
        raise AtallaError(f"a number of threads from 1 to 4096 is wanted, not {count}")


def _suffix() -> str:
    if sys.platform == "win32":
        raise AtallaError("ExecuTorch's package for Windows has no library that a delegate could be linked to")
    return ".dylib" if sys.platform == "darwin" else ".so"


def _package() -> Path:
    found = importlib.util.find_spec("executorch")
    if found is None or not found.submodule_search_locations:
        raise AtallaError("the delegate needs ExecuTorch: pip install executorch")
    return Path(found.submodule_search_locations[0])


def _version() -> str:
    _package()
    return importlib.metadata.version("executorch")


if __name__ == "__main__":
    try:
        place = delegate_path()
        build(place)
    except AtallaError as error:
        sys.exit(str(error))
    print(place)  # noqa: T201  what a caller wants to know
