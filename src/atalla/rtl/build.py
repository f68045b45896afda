"""Build: the matrix unit by Verilator and a C++ compiler, once for each size, type, sources and tools."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Literal

from atalla.errors import AtallaError
from atalla.rtl.tools import find_compiler, find_verilator, run

Kind = Literal["int8", "bf16"]
SIZES = (8, 16, 32)
"""Rows, and columns, of processing elements."""
ROWS = 1024
"""Addresses of the accumulators: the most rows of one tile."""
SOURCES = Path(__file__).parent
VERILOG = ("bf16_math.sv", "matrix_unit.sv")
SHIM = "shim.cpp"
VARIABLE = "ATALLA_CACHE"
"""Environment variable that overrides where libraries are kept."""
_VERILATE = (
    *("--cc", "--top-module", "matrix_unit", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert"),
    *("--unroll-count", "1", "-Wno-fatal"),  # loops stay loops, which the C++ compiler makes fast
)
_COMPILE = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-DVL_TIME_CONTEXT", "-w")
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


def build(size: int, kind: Kind, sources: Path = SOURCES) -> Path:
    """Return the library of a matrix unit, which is built if it is not there: some 10 seconds.

    Args:
        size: one of ``SIZES``.
        kind: the type of its activations and weights.
        sources: the folder with its SystemVerilog and the shim.

    Raises:
        AtallaError: the size is another, a tool is absent or fails, or the library cannot be written.
    """
    if size not in SIZES:
        raise AtallaError(f"a matrix unit is of size {', '.join(map(str, SIZES))}, not {size}")
    verilator, compiler = find_verilator(), find_compiler()
    parameters = {"SIZE": size, "ROWS": ROWS, "IS_BF16": int(kind == "bf16")}
    files = [sources / name for name in (*VERILOG, SHIM)]
    parts: list[object] = [parameters, _VERILATE, _COMPILE, verilator.version, verilator.program, compiler]
    parts += [run([*compiler, "--version"]), platform.machine(), *(file.read_text() for file in files)]
    key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
    library = _cache() / f"matrix-unit-{kind}-{size}-{key}.so"
    if library.exists():
        return library
    print(f"building the {kind} matrix unit of {size} × {size} (about 10 seconds, once)", file=sys.stderr)  # noqa: T201
    root = {"VERILATOR_ROOT": str(verilator.root)} if verilator.program.endswith("_bin") else {}
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as name:
            folder, include = Path(name), verilator.root / "include"
            given = [f"-G{key}={value}" for key, value in parameters.items()]
            verilog = [str(sources / file) for file in VERILOG]
            run([verilator.program, *_VERILATE, *given, "--Mdir", name, *verilog], root)
            defines = [f"-DATALLA_{key}={value}" for key, value in parameters.items()]
            runtime = [_runtime(file, [*compiler, *_COMPILE], include) for file in _RUNTIME]
            code = [*sorted(folder.glob("*.cpp")), *runtime, sources / SHIM]
            places = [f"-I{place}" for place in (folder, include, include / "vltstd")]
            made = folder / "library"
            run([*compiler, *_COMPILE, *defines, *places, *map(str, code), "-o", str(made), "-pthread"])
            made.replace(library)
    except OSError as error:
        raise AtallaError(f"{library} cannot be written: {error.strerror}") from error
    return library


def _runtime(name: str, compiler: list[str], include: Path) -> Path:
    """Return an object of Verilator's runtime: a third of the compiler's time, and the same for every unit."""
    versions = [run([*compiler, "--version"]), (include / "verilated_config.h").read_text(), platform.machine()]
    key = hashlib.sha256(json.dumps([compiler, *versions, (include / name).read_text()]).encode()).hexdigest()[:32]
    made = _cache() / f"{Path(name).stem}-{key}.o"
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            part = Path(folder) / made.name
            words = [word for word in compiler if word != "-shared"]
            run([*words, f"-I{include}", f"-I{include / 'vltstd'}", "-c", str(include / name), "-o", str(part)])
            part.replace(made)
    return made


def clean() -> None:
    """Delete all libraries that were built."""
    shutil.rmtree(_cache(), ignore_errors=True)


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get(VARIABLE) or Path(home) / "atalla") / "rtl"
