"""Build: the C kernels, and the C++ delegate against the ExecuTorch that is installed.

``python -m mychip.build`` does both; else each is built when it is first needed. It is compiled once for a version of
its sources, compiler and ExecuTorch, and kept in ``$MYCHIP_CACHE``, or else in ``~/.cache/mychip``.

CHIP: a product would ship them compiled, in wheels of each platform.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mychip.errors import BuildError, MychipError

SOURCES = Path(__file__).with_name("csrc")
SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
C_FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
"""The last one: a product and a sum are rounded each, as the simulator does it."""
CXX_FLAGS = (
    *("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility-inlines-hidden", "-fno-rtti", "-fno-exceptions"),
    *("-Wall", "-Wextra", "-Werror", "-DC10_USING_CUSTOM_GENERATED_MACROS", "-DET_EVENT_TRACER_ENABLED"),
)
"""The last two as ExecuTorch's own libraries were compiled: else classes that both sides use differ."""


def c_compiler() -> list[str]:
    """Return the command of the C compiler: ``$CC``, or ``cc``."""
    return shlex.split(os.environ.get("CC") or "cc")


def cxx_compiler() -> list[str]:
    """Return the command of the C++ compiler: ``$CXX``, or ``c++``."""
    return shlex.split(os.environ.get("CXX") or "c++")


def kernels_library() -> Path:
    """Return the C library; it is built where that was not done.

    Raises:
        BuildError: there is no compiler, or it fails.
    """
    return _built("mychip", [*c_compiler(), *C_FLAGS, *map(str, sorted(SOURCES.glob("*.c")))])


def delegate_library() -> Path:
    """Return the delegate's library, which uses the C library; it is built where that was not done.

    Raises:
        BuildError: ExecuTorch is not installed, there is no compiler, or it fails.
    """
    include = executorch() / "include"
    headers = [f"-isystem{one}" for one in (include, include / "executorch/runtime/core/portable_type/c10")]
    # What it does not define itself is in libexecutorch and in the C library: both are open by then (delegate.py).
    link = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else []
    return _built("mychip_delegate", [*cxx_compiler(), *CXX_FLAGS, *headers, *link, str(SOURCES / "delegate.cpp")])


def executorch() -> Path:
    """Return the folder of the package.

    Raises:
        BuildError: it is not installed.
    """
    found = importlib.util.find_spec("executorch")
    if found is None or not found.submodule_search_locations:
        raise BuildError("the delegate needs ExecuTorch: pip install executorch")
    return Path(found.submodule_search_locations[0])


def _built(name: str, command: Sequence[str]) -> Path:
    digest = hashlib.sha256(repr((command, _version())).encode())
    for file in sorted(SOURCES.iterdir()):
        digest.update(file.read_bytes())
    home = Path(os.environ.get("MYCHIP_CACHE") or Path.home() / ".cache" / "mychip")
    path = home / f"lib{name}_{digest.hexdigest()[:16]}{SUFFIX}"
    if path.exists():
        return path
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as folder:
        made = Path(folder) / path.name
        try:
            done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True, check=False)
        except OSError as error:
            raise BuildError(f"there is no compiler {command[0]!r} ({error.strerror}); install one (g++)") from error
        if done.returncode:
            raise BuildError(f"{command[0]} failed: {done.stderr.strip()[-2000:]}")
        made.replace(path)  # whole or not at all, whoever else builds
    return path


def _version() -> str | None:
    try:
        return importlib.metadata.version("executorch")
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    try:
        print(kernels_library(), delegate_library(), sep="\n")
    except MychipError as error:
        sys.exit(str(error))
