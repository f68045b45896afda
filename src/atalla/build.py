"""Build: the C library, by the system's compiler; each file of kernels for its own instruction set.

python -m atalla.build [FILE]
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from atalla.errors import AtallaError

SOURCES = Path(__file__).with_name("csrc")
FLAGS = (
    *("-std=c11", "-D_GNU_SOURCE", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"),
    *("-fno-strict-aliasing", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"),
)
AVX512 = ("-mavx512f", "-mavx2", "-mfma", "-mprefer-vector-width=512")
VNNI = (*AVX512, "-mavx512bw", "-mavx512vl", "-mavx512vnni")
SETS = {
    "kernels_base": (),
    "kernels_avx2": ("-mavx2", "-mfma"),
    "kernels_avx512": AVX512,
    "kernels_vnni": VNNI,
    "kernels_amx": (*VNNI, "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
}
"""File of kernels → the instructions that it may use."""


def is_stale(path: Path) -> bool:
    """Whether a library is not there, or older than what it is built of."""
    sources = [Path(__file__), *SOURCES.rglob("*.[ch]"), *SOURCES.rglob("*.inc")]
    return not path.exists() or path.stat().st_mtime < max(file.stat().st_mtime for file in sources)


def sets_of(machine: str) -> Mapping[str, Sequence[str]]:
    """Return the files of kernels for a machine's processor, as ``platform.machine`` names it."""
    return SETS if machine.lower() in {"x86_64", "amd64"} else {"kernels_base": SETS["kernels_base"]}


def files_of(sets: Mapping[str, Sequence[str]]) -> tuple[list[Path], list[str]]:
    """Return the sources of a library with these kernels, and the flags that tell it which kernels it lacks."""
    lacking = [name for name in SETS if name not in sets]
    files = [file for file in sorted(SOURCES.rglob("*.c")) if file.stem not in lacking]
    return files, [f"-DATALLA_NO_{name.removeprefix('kernels_').upper()}" for name in lacking]


def build(path: Path, more: Sequence[str] = (), sets: Mapping[str, Sequence[str]] | None = None) -> None:
    """Compile and link the library; it is there whole or not at all.

    Args:
        path: of the library.
        more: flags after all others, for the compiler and the linker: ``-Werror``, ``-fsanitize=address``.
        sets: file of kernels → the instructions that it may use; if not given, those of ``SETS`` for this machine.

    Raises:
        AtallaError: there is no C compiler, it failed, or the library cannot be written.
    """
    compiler = _compiler()
    sets = sets_of(platform.machine()) if sets is None else sets
    sources, lacking = files_of(sets)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = [Path(folder) / f"{file.stem}.o" for file in sources]
        names = [file.relative_to(SOURCES) for file in sources]
        commands = [
            [*compiler, *FLAGS, *lacking, *sets.get(name.stem, ()), *more, "-c", str(name), "-o", str(made)]
            for name, made in zip(names, objects, strict=True)
        ]
        list(pool.map(_run, commands))
        whole = Path(folder) / "whole"
        _run([*compiler, "-shared", *more, *map(str, objects), "-o", str(whole), "-lm", "-lpthread"])
        part = path.with_name(f"{path.name}.part")
        try:
            part.write_bytes(whole.read_bytes())
            part.replace(path)
        except OSError as error:
            raise AtallaError(f"{path} cannot be written: {error.strerror}") from error


def _compiler() -> list[str]:
    """Return the command of the C compiler: ``$CC``, ``cc``, or the one that the package ziglang brings."""
    if not os.environ.get("CC") and not shutil.which("cc") and importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    return shlex.split(os.environ.get("CC") or "cc")


def _run(command: Sequence[str]) -> None:
    try:
        # Sources go by their names there, so that the same library is made wherever they lie.
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=SOURCES)
    except OSError as error:
        raise AtallaError(f"there is no C compiler ({error}); install one, or: pip install ziglang") from error
    if done.returncode:
        raise AtallaError(f"{command[0]} failed: {done.stderr.strip()[-2000:]}")


if __name__ == "__main__":
    from atalla.library import library_path

    try:
        build(Path(sys.argv[1]) if len(sys.argv) > 1 else library_path())
    except AtallaError as error:
        sys.exit(str(error))
